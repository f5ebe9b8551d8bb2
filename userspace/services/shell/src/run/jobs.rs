//! The jobs of a session.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_schema::terminal::Style;

use super::job::Job;
use crate::escape::first_line;
use crate::screen::Screen;

/// Characters of a job's line that are shown.
const WIDTH: usize = 100;

/// The jobs that run, and those whose end the person has not been told of.
#[derive(Default)]
pub struct Jobs {
    list: RefCell<Vec<Rc<Job>>>,
}

impl Jobs {
    /// A number for another job: the next behind those that there are, from 1.
    ///
    /// # Errors
    /// As many run as may.
    pub fn number(&self, most: u32) -> Result<u32, String> {
        let running = self.list.borrow().iter().filter(|job| !job.is_ended()).count();
        if running >= usize::try_from(most).unwrap_or(usize::MAX) {
            return Err(format!(
                "this session runs {running} jobs, which is the limit; /jobs lists them, /stop N stops one"
            ));
        }
        Ok(next(self.list.borrow().iter().map(|job| job.number)))
    }

    /// Keeps a job.
    pub fn add(&self, job: Rc<Job>) {
        self.list.borrow_mut().push(job);
    }

    /// Forgets a job whose end was told.
    pub fn forget(&self, job: &Rc<Job>) {
        self.list.borrow_mut().retain(|other| !Rc::ptr_eq(other, job));
    }

    /// All, oldest first.
    pub fn all(&self) -> Vec<Rc<Job>> {
        self.list.borrow().clone()
    }

    /// The job with this number.
    pub fn find(&self, number: u32) -> Option<Rc<Job>> {
        self.list.borrow().iter().find(|job| job.number == number).cloned()
    }

    /// Tells of the jobs that have ended, with what was kept of their output.
    pub async fn report(&self, screen: &Screen) {
        for job in self.all().into_iter().filter(|job| job.is_ended()) {
            job.output.show_kept().await;
            let ends = job.ends();
            let how = if ends.is_empty() { "done".into() } else { ends.join("; ") };
            let style = if ends.is_empty() { Style::Dim } else { Style::Warning };
            screen.line(style, &format!("[{}] {}: {how}", job.number, title(&job))).await;
            self.forget(&job);
        }
    }

    /// Ends all that run, and says so.
    pub async fn stop_all(&self, screen: &Screen, why: &str) {
        self.report(screen).await;
        for job in self.all() {
            let text = format!("[{}] {} was stopped: {why}", job.number, title(&job));
            screen.line(Style::Warning, &text).await;
            job.stop();
            job.ended().await;
            self.forget(&job);
        }
    }
}

/// The number behind all of these.
fn next(numbers: impl Iterator<Item = u32>) -> u32 {
    numbers.max().unwrap_or(0).saturating_add(1)
}

/// A job's line in the form that is shown.
pub fn title(job: &Job) -> String {
    first_line(&job.line, WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_numbered_from_one() {
        assert_eq!(next([].into_iter()), 1);
        assert_eq!(next([1, 2].into_iter()), 3);
        assert_eq!(next([2].into_iter()), 3, "a number that was told means one job as long as that is there");
    }
}
