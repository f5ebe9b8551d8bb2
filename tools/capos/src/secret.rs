//! A secret that a person types at this machine.

use std::io::BufRead;
use std::os::fd::AsFd;

use anyhow::{Context, Result, bail};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcsetattr};

/// The character of Ctrl-C.
const INTERRUPT: u8 = 3;

/// A terminal that does not show what is typed until this is dropped.
struct Hidden<'a, F: AsFd> {
    terminal: &'a F,
    before: Termios,
}

impl<'a, F: AsFd> Hidden<'a, F> {
    fn of(terminal: &'a F) -> Result<Self> {
        let before = tcgetattr(terminal).context("reading the modes of the terminal")?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
        // Ctrl-C would end this process and leave the terminal without echo. Here it ends the line.
        modes.local_modes.remove(LocalModes::ISIG);
        modes.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
        tcsetattr(terminal, OptionalActions::Now, &modes).context("hiding what is typed at the terminal")?;
        Ok(Self { terminal, before })
    }
}

impl<F: AsFd> Drop for Hidden<'_, F> {
    fn drop(&mut self) {
        if let Err(why) = tcsetattr(self.terminal, OptionalActions::Now, &self.before) {
            eprintln!("the terminal still hides what is typed ({why}); `stty sane` shows it again");
        }
        // The line's own end was not shown either.
        eprintln!();
    }
}

/// Reads a line of an input, without its end. If its file is a terminal, what is typed is not shown.
///
/// # Errors
/// The input cannot be read, the terminal cannot hide it, or Ctrl-C was pressed.
pub fn line(file: &impl AsFd, mut input: impl BufRead) -> Result<String> {
    let mut bytes = Vec::new();
    if isatty(file) {
        bytes = hidden(file, &mut input)?;
    } else {
        input.read_until(b'\n', &mut bytes).context("reading standard input")?;
    }
    let text = String::from_utf8(bytes).context("what was entered is not UTF-8")?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Reads a line at a terminal that hides it meanwhile.
fn hidden(terminal: &impl AsFd, input: &mut impl BufRead) -> Result<Vec<u8>> {
    let _hidden = Hidden::of(terminal)?;
    // A terminal gives one line at a time.
    let bytes = input.fill_buf().context("reading the terminal")?.to_vec();
    input.consume(bytes.len());
    if bytes.contains(&INTERRUPT) {
        bail!("Ctrl-C was pressed, and nothing was read");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{BufReader, Read, Write};
    use std::time::{Duration, Instant};

    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    /// A terminal: the end of the person, and that of the program.
    fn terminal() -> (File, File) {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let name = ptsname(&person, Vec::new()).unwrap();
        let program = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        (person.into(), program.into())
    }

    fn echoes(terminal: &File) -> bool {
        tcgetattr(terminal).unwrap().local_modes.contains(LocalModes::ECHO)
    }

    /// What is read when these bytes are typed, and what the person sees until then and of a line after it.
    fn typed(bytes: &[u8]) -> (Result<String>, String) {
        let (mut person, program) = terminal();
        let reading = program.try_clone().unwrap();
        let reader = std::thread::spawn(move || line(&reading, BufReader::new(&reading)));
        let began = Instant::now();
        while echoes(&program) {
            assert!(began.elapsed() < Duration::from_secs(20), "the terminal shows what is typed");
            std::thread::yield_now();
        }
        person.write_all(bytes).unwrap();
        let read = reader.join().unwrap();
        assert!(echoes(&program), "the terminal still hides what is typed");
        person.write_all(b"shown\n").unwrap();
        let mut seen = String::new();
        while !seen.ends_with('\n') {
            let mut some = [0];
            person.read_exact(&mut some).unwrap();
            seen.push(some[0].into());
        }
        (read, seen)
    }

    /// Nothing of a secret is shown, and the terminal shows again what is typed after it.
    #[test]
    fn a_secret_is_not_shown_at_the_terminal() {
        let (read, seen) = typed(b"correct horse\n");
        assert_eq!((read.unwrap().as_str(), seen.as_str()), ("correct horse", "shown\r\n"));
        let (read, seen) = typed(b"correct ho\x03");
        assert!(read.unwrap_err().to_string().starts_with("Ctrl-C"));
        assert_eq!(seen, "shown\r\n");
    }

    #[test]
    fn a_file_has_the_secret_as_its_first_line() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"correct horse\r\nmore\n").unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        assert_eq!(line(&file, BufReader::new(&file)).unwrap(), "correct horse");
    }
}
