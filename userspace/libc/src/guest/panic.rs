//! A panic of the library itself: it is a defect, so the process ends.

use core::panic::PanicInfo;

use crate::guest::output;
use crate::guest::process;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    output::error_line(format_args!("the C library panicked: {info}"));
    process::end(process::BROKEN)
}
