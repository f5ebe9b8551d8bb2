//! A machine that decides as the kernel does, without time: slices end when a test says so.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI8, AtomicU32, AtomicU64, Ordering};

use capos_sched::{IDLE, Processors, Ready, RunQueue, Schedulable, Turn, Waiting};

/// What is left of the slice of a thread that was interrupted, nanoseconds; its size makes no difference here.
const LEFT: u64 = 5;
/// Calls after which processors that call each other count as endless.
const ENDLESS: usize = 1000;

/// A thread.
#[derive(Debug)]
pub struct Task {
    number: usize,
    priority: AtomicI8,
    pub mask: AtomicU32,
    pub is_dead: AtomicBool,
    /// It can run and does not.
    is_ready: AtomicBool,
    slices: AtomicU64,
}

impl Task {
    /// A thread that waits for something, and may run on all processors.
    pub fn new(number: usize, priority: i8) -> Self {
        Self {
            number,
            priority: AtomicI8::new(priority),
            mask: AtomicU32::new(u32::MAX),
            is_dead: AtomicBool::new(false),
            is_ready: AtomicBool::new(false),
            slices: AtomicU64::new(0),
        }
    }

    pub fn number(&self) -> usize {
        self.number
    }

    /// How many slices it has run.
    pub fn slices(&self) -> u64 {
        self.slices.load(Ordering::Relaxed)
    }
}

impl Schedulable for Task {
    fn priority(&self) -> i8 {
        self.priority.load(Ordering::Relaxed)
    }

    fn may_run_on(&self, processor: u32) -> bool {
        self.mask.load(Ordering::Relaxed) >> processor & 1 == 1
    }

    fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    fn begin(&self) -> bool {
        self.is_ready.swap(false, Ordering::Relaxed) && !self.is_dead()
    }
}

struct Cpu {
    ready: RefCell<Ready<Task>>,
    current: RefCell<Option<Arc<Task>>>,
    called: Cell<bool>,
}

pub struct Machine {
    cpus: Vec<Cpu>,
    tasks: Vec<Arc<Task>>,
    waiting: &'static Waiting,
}

/// The machine, as one processor sees it.
struct View<'m>(&'m Machine, usize);

impl Processors<Task> for View<'_> {
    type Processor = usize;

    fn others(&self) -> impl Iterator<Item = usize> {
        (0..self.0.cpus.len()).filter(|other| *other != self.1)
    }

    fn index(&self, processor: usize) -> u32 {
        processor as u32
    }

    fn with_queue<R>(&self, processor: usize, act: impl FnOnce(&mut RunQueue<Task>) -> R) -> R {
        act(&mut self.0.cpus[processor].ready.borrow_mut().queue)
    }

    fn running(&self, processor: usize) -> i8 {
        self.0.running(processor)
    }

    fn is_called(&self, processor: usize) -> bool {
        self.0.cpus[processor].called.get()
    }

    fn call(&self, processor: usize) {
        self.0.cpus[processor].called.set(true);
    }

    fn count(&self) -> usize {
        self.0.cpus.len()
    }
}

impl Machine {
    /// This many processors and threads, which all wait for something.
    pub fn new(processors: usize, tasks: usize) -> Self {
        let waiting: &'static Waiting = Box::leak(Box::default());
        let cpu = |own| {
            let queue = RunQueue::new(waiting).expect("there is memory");
            Cpu { ready: RefCell::new(Ready::new(own, queue)), current: RefCell::default(), called: Cell::default() }
        };
        let task = |number| Arc::new(Task::new(number, 0));
        Self { cpus: (0..processors as u32).map(cpu).collect(), tasks: (0..tasks).map(task).collect(), waiting }
    }

    pub fn count(&self) -> usize {
        self.cpus.len()
    }

    pub fn tasks(&self) -> impl Iterator<Item = &Arc<Task>> {
        self.tasks.iter()
    }

    /// The thread that runs on a processor.
    pub fn current(&self, processor: usize) -> Option<Arc<Task>> {
        self.cpus[processor].current.borrow().clone()
    }

    fn running(&self, processor: usize) -> i8 {
        self.cpus[processor].current.borrow().as_ref().map_or(IDLE, |current| current.priority())
    }

    fn runs_on(&self, task: &Arc<Task>) -> Option<usize> {
        (0..self.count()).find(|processor| self.current(*processor).is_some_and(|current| Arc::ptr_eq(&current, task)))
    }

    /// The processors where a thread waits, once for each time that it does.
    fn waits_at(&self, task: &Arc<Task>) -> Vec<usize> {
        let mut found = Vec::new();
        for (at, cpu) in self.cpus.iter().enumerate() {
            let ready = cpu.ready.borrow();
            let all = ready.queue.iter().chain(&ready.handoff);
            found.extend(all.filter(|other| Arc::ptr_eq(other, task)).map(|_| at));
        }
        found
    }

    /// What a processor does on its way out of the kernel.
    pub fn decide(&self, processor: usize) {
        let view = View(self, processor);
        let cpu = &self.cpus[processor];
        let mut ready = cpu.ready.borrow_mut();
        let current = self.current(processor).filter(|current| !current.is_dead());
        let stays = current.as_ref().is_some_and(|current| {
            current.may_run_on(processor as u32) && !ready.is_outranked(current.priority(), &view)
        });
        if stays {
            if self.count() > 1 || !ready.queue.is_empty() {
                ready.queue_kept();
            }
        } else {
            let had_current = current.is_some();
            *cpu.current.borrow_mut() = None;
            if let Some(current) = current {
                current.is_ready.store(true, Ordering::Relaxed);
                ready.put_back(current, Some(LEFT), &view);
            }
            *cpu.current.borrow_mut() = ready.next(had_current, &view).map(|(next, _): (_, Turn)| next);
        }
        cpu.called.set(false);
        if !ready.queue.is_empty() && self.count() > 1 {
            ready.share(self.running(processor), &view);
        }
    }

    /// Each processor that was called decides, until none is.
    pub fn deliver_calls(&self) {
        for _ in 0..ENDLESS {
            let Some(called) = self.cpus.iter().position(|cpu| cpu.called.get()) else { return };
            self.decide(called);
        }
        panic!("processors call each other without end");
    }

    /// What runs on a processor wakes a thread that waits for something, and stays in the kernel.
    pub fn make_ready(&self, processor: usize, task: usize) {
        let task = &self.tasks[task % self.tasks.len()];
        if !task.is_dead() && self.runs_on(task).is_none() && !task.is_ready.swap(true, Ordering::Relaxed) {
            self.cpus[processor].ready.borrow_mut().make_ready(Arc::clone(task), &View(self, processor));
        }
    }

    /// The same, and it leaves the kernel.
    pub fn wake(&self, processor: usize, task: usize) {
        self.make_ready(processor, task);
        self.decide(processor);
    }

    /// The thread that runs on a processor waits for something.
    pub fn block(&self, processor: usize) {
        *self.cpus[processor].current.borrow_mut() = None;
        // What it was is not asked: that it ran is, by `next`.
        self.decide(processor);
    }

    /// A slice is over: the thread waits behind those of its priority.
    pub fn end_slice(&self, processor: usize) {
        let Some(current) = self.current(processor) else { return };
        let cpu = &self.cpus[processor];
        let mut ready = cpu.ready.borrow_mut();
        let waiting = !ready.queue.is_free_for(current.priority()) || ready.handoff.is_some();
        if waiting {
            ready.queue_kept();
            *cpu.current.borrow_mut() = None;
            current.is_ready.store(true, Ordering::Relaxed);
            ready.put_back(current, None, &View(self, processor));
        }
        drop(ready);
        self.decide(processor);
    }

    /// All that run use up a slice, and it ends.
    pub fn run_slices(&self) {
        for processor in 0..self.count() {
            if let Some(current) = self.current(processor) {
                current.slices.fetch_add(1, Ordering::Relaxed);
            }
        }
        for processor in 0..self.count() {
            self.end_slice(processor);
            self.deliver_calls();
        }
    }

    /// A thread has another priority from now on.
    pub fn rank(&self, processor: usize, task: usize, priority: i8) {
        let task = &self.tasks[task % self.tasks.len()];
        task.priority.store(priority, Ordering::Relaxed);
        match self.runs_on(task) {
            Some(other) => self.cpus[other].called.set(true),
            None => {
                for other in &self.cpus {
                    let mut ready = other.ready.borrow_mut();
                    if let Some(task) = ready.queue.remove(task) {
                        ready.queue.push(task);
                        other.called.set(true);
                    }
                }
            }
        }
        self.decide(processor);
    }

    /// The processors that a thread may run on are others from now on.
    pub fn settle(&self, processor: usize, task: usize, mask: u32) {
        let task = &self.tasks[task % self.tasks.len()];
        task.mask.store(mask, Ordering::Relaxed);
        match self.runs_on(task) {
            Some(other) => self.cpus[other].called.set(true),
            None => {
                let waiting = self.cpus.iter().find_map(|other| other.ready.borrow_mut().remove(task));
                if let Some(task) = waiting {
                    self.cpus[processor].ready.borrow_mut().make_ready(task, &View(self, processor));
                }
            }
        }
        self.decide(processor);
    }

    /// A thread ends, wherever it is.
    pub fn kill(&self, processor: usize, task: usize) {
        let task = &self.tasks[task % self.tasks.len()];
        task.is_dead.store(true, Ordering::Relaxed);
        match self.runs_on(task) {
            Some(other) => self.cpus[other].called.set(true),
            None => self.cpus.iter().for_each(|cpu| drop(cpu.ready.borrow_mut().take_dead())),
        }
        self.decide(processor);
    }

    /// Each thread is at as many places as it can be, and where it may.
    pub fn check_places(&self) {
        let mut waiting = 0;
        for task in &self.tasks {
            let (runs, waits) = (self.runs_on(task), self.waits_at(task));
            let is_ready = task.is_ready.load(Ordering::Relaxed) && !task.is_dead();
            assert_eq!(waits.len(), usize::from(is_ready), "{task:?} waits at {waits:?}");
            assert!(!(is_ready && runs.is_some()), "{task:?} runs on {runs:?} and waits at {waits:?}");
            assert!(runs.is_none_or(|processor| task.may_run_on(processor as u32)), "{task:?} runs on {runs:?}");
            assert!(!(task.is_dead() && runs.is_some()), "{task:?} runs");
            waiting += waits.len();
        }
        let kept = self.cpus.iter().filter(|cpu| cpu.ready.borrow().handoff.is_some()).count();
        assert_eq!(self.waiting.count(), waiting - kept);
    }

    /// No processor idles, or runs a less urgent thread, while one waits that may run there.
    pub fn check_urgency(&self) {
        for task in &self.tasks {
            let waits = self.waits_at(task);
            for processor in (0..self.count()).filter(|processor| task.may_run_on(*processor as u32)) {
                assert!(
                    waits.is_empty() || self.running(processor) >= task.priority(),
                    "{task:?} waits at {waits:?}, and processor {processor} runs {:?}",
                    self.current(processor)
                );
            }
        }
    }
}
