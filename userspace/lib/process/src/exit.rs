//! Texts about the end of a process.

use alloc::format;
use alloc::string::String;

use capos_rt::exit_code;
use capos_schema::kernel::{ExitInfo, ExitInfoCause};

/// How a process ended, as text.
#[must_use]
pub fn describe_exit(exit: &ExitInfo) -> String {
    match exit.cause {
        ExitInfoCause::Exited if exit.code == 0 => "it ended by itself".into(),
        ExitInfoCause::Exited if exit.code == exit_code::PANIC => "it panicked; the log says where".into(),
        ExitInfoCause::Exited if exit.code == exit_code::OUT_OF_MEMORY => {
            "it ran out of memory; the log says how much it needed".into()
        }
        ExitInfoCause::Exited if exit.code == exit_code::ABORTED => {
            format!("it aborted with code {}: it needed more memory than it may have, or gave up by itself", exit.code)
        }
        ExitInfoCause::Exited => format!("it ended with code {}", exit.code),
        ExitInfoCause::Killed | ExitInfoCause::Fault | ExitInfoCause::CpuTime => exit.report.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_end_is_without_a_reason() {
        let words = |cause, code, report: &str| describe_exit(&ExitInfo { cause, code, report: report.into() });
        assert_eq!(words(ExitInfoCause::Exited, 0, ""), "it ended by itself");
        assert_eq!(words(ExitInfoCause::Exited, 1, ""), "it ended with code 1");
        assert!(words(ExitInfoCause::Exited, 101, "").contains("panicked"));
        assert!(words(ExitInfoCause::Exited, 102, "").contains("out of memory"));
        assert!(
            words(ExitInfoCause::Exited, 134, "").contains("134")
                && words(ExitInfoCause::Exited, 134, "").contains("memory")
        );
        assert_eq!(words(ExitInfoCause::Killed, 0, "killed by `init`: enough"), "killed by `init`: enough");
    }
}
