//! Which attacks there are, and how each must end.

use capos_schema::kernel::Limits;

/// How a process must end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// By itself, with code 0: the kernel withstood.
    Returns,
    /// By its own fault, with a report that holds all of these words.
    Dies(&'static [&'static str]),
    /// Either of the two; random bytes may well mean something.
    ReturnsOrDies,
    /// By itself, with any code, or with a report: it deceives its own library, which may believe it.
    Anyhow,
    /// By itself, with this code.
    Exits(i32),
    /// Not at all, until it is ended from outside.
    Runs,
    /// By the limit of its CPU time, all of which it has used.
    RunsOut,
}

/// How much the attacker's account may hold.
#[derive(Clone, Copy)]
pub enum Size {
    /// Enough for an ordinary process.
    Ordinary,
    /// A great many capabilities.
    ManyCapabilities,
    /// All memory that is left, except [`STARTING`].
    Everything,
    /// The limits that the manifest gives a file server.
    Server,
    /// Many processes and objects: random operations lose some of them.
    Many,
    /// [`LITTLE_TIME`].
    LittleTime,
}

/// CPU time of attacks that are to use it up, in nanoseconds: several times the time of their start under
/// QEMU's translation. So the attack itself uses it up.
pub const LITTLE_TIME: u64 = 300_000_000;

/// Frames that the runner itself may take while it starts an attack: its heap can grow meanwhile.
const STARTING: u64 = 64;

impl Size {
    /// The account's limits, if this many frames are left.
    pub fn limits(self, frames: u64) -> Limits {
        let ordinary = Limits {
            frames: 2048,
            capabilities: 256,
            threads: 64,
            processes: 8,
            objects: 128,
            priority: 0,
            cpu_nanoseconds: 0,
        };
        match self {
            Self::Ordinary => ordinary,
            Self::ManyCapabilities => Limits { frames: 16_384, capabilities: 30_000, ..ordinary },
            Self::Everything => Limits { frames: frames.saturating_sub(STARTING), ..ordinary },
            Self::Many => Limits {
                frames: 16_384,
                capabilities: 512,
                threads: 256,
                processes: 64,
                objects: 1024,
                priority: 1,
                cpu_nanoseconds: 0,
            },
            Self::LittleTime => Limits { cpu_nanoseconds: LITTLE_TIME, ..ordinary },
            Self::Server => Limits { frames: 4096, capabilities: 1024, ..ordinary },
        }
    }
}

/// Who attacks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Attacker {
    /// A program on the kernel's interface alone.
    Bare,
    /// An ordinary program on `std`, next to a neighbour's files.
    Std,
}

/// One attack.
#[derive(Clone, Copy)]
pub struct Plan {
    /// The program.
    pub attacker: Attacker,
    /// Its name, as the attacker knows it.
    pub attack: &'static str,
    /// Its argument.
    pub argument: &'static str,
    /// How it must end.
    pub expect: Expect,
    /// Its limits.
    pub size: Size,
    /// A process that supplies the pages of `weights`: its way, and how it must end.
    pub pager: Option<(&'static str, Expect)>,
}

impl Plan {
    /// Whether it is one of the random operations that may pin memory for devices, which stays a while after their
    /// end: every fifth of them, since it is waited for.
    pub fn lingers(&self) -> bool {
        self.attack == "random-operations" && self.argument.ends_with(['0', '5', 'a', 'f'])
    }
}

use Attacker::{Bare, Std};
use Expect::{Anyhow, Dies, Exits, Returns, ReturnsOrDies, Runs, RunsOut};

const fn plan(attack: &'static str, argument: &'static str, expect: Expect) -> Plan {
    Plan { attacker: Bare, attack, argument, expect, size: Size::Ordinary, pager: None }
}

const fn sized(attack: &'static str, size: Size, expect: Expect) -> Plan {
    Plan { attacker: Bare, attack, argument: "", expect, size, pager: None }
}

const fn on_std(attack: &'static str, argument: &'static str, expect: Expect) -> Plan {
    Plan { attacker: Std, ..plan(attack, argument, expect) }
}

/// Instructions that raise "general protection" in the processor.
const PROTECTED: Expect = Dies(&["general protection", "exception 13", "instruction 0x"]);

const fn instruction(name: &'static str) -> Plan {
    plan("instruction", name, PROTECTED)
}

const fn instruction_dies(name: &'static str, words: &'static [&'static str]) -> Plan {
    plan("instruction", name, Dies(words))
}

const fn paged(attack: &'static str, argument: &'static str, expect: Expect, way: &'static str, pager: Expect) -> Plan {
    Plan { attacker: Bare, attack, argument, expect, size: Size::Ordinary, pager: Some((way, pager)) }
}

/// The report of a touched page when its pager failed.
const PAGER_GONE: Expect = Dies(&["paged memory object", "at offset 0x0", "pager failed", "is gone"]);

/// 50,000 random operations on everything that a process can hold, with an honest pager.
const fn operations(seed: &'static str) -> Plan {
    Plan { size: Size::Many, ..paged("random-operations", seed, Returns, "honest", Runs) }
}

/// The attack that is started again and again, with one frame more each time.
pub const FEW_FRAMES: &str = "call-with-few-frames";

/// Does something for ever, with little CPU time for it.
const fn spending(way: &'static str) -> Plan {
    Plan { size: Size::LittleTime, ..plan("spend-time", way, RunsOut) }
}

/// The attacks whose argument is a seed.
pub const RANDOM: &[Plan] = &[
    plan("random-entries", "", ReturnsOrDies),
    plan("random-rings", "", ReturnsOrDies),
    plan("random-kernel-words", "", Returns),
    plan("random-mappings", "", Returns),
    operations(""),
];

/// Every attack, in the order in which they run.
pub const PLANS: &[Plan] = &[
    plan("nothing", "", Returns),
    // Rings.
    plan("pointers", "", Returns),
    plan("overlapping-buffers", "", Returns),
    plan("reserved-fields", "", Returns),
    plan("opcodes", "", Returns),
    plan("sizes", "", Returns),
    plan("malformed-messages", "", Returns),
    plan("random-entries", "1", ReturnsOrDies),
    plan("random-entries", "2", ReturnsOrDies),
    plan("random-entries", "3", ReturnsOrDies),
    plan("random-entries", "4", ReturnsOrDies),
    plan("random-entries", "5", ReturnsOrDies),
    plan("random-entries", "6", ReturnsOrDies),
    plan("random-rings", "1", ReturnsOrDies),
    plan("random-rings", "2", ReturnsOrDies),
    plan("random-rings", "3", ReturnsOrDies),
    plan("random-kernel-words", "1", Returns),
    plan("random-kernel-words", "2", Returns),
    plan("receive-into-rings", "", Returns),
    // A million operations.
    operations("1"),
    operations("2"),
    operations("3"),
    operations("4"),
    operations("5"),
    operations("6"),
    operations("7"),
    operations("8"),
    operations("9"),
    operations("a"),
    operations("b"),
    operations("c"),
    operations("d"),
    operations("e"),
    operations("f"),
    operations("10"),
    operations("11"),
    operations("12"),
    operations("13"),
    operations("14"),
    // Threads.
    plan("word-waiters", "", Returns),
    plan("thread-storm", "", Returns),
    plan("own-thread", "", Returns),
    plan("unmapped-rings", "", Dies(&["where nothing is mapped", "`victim`"])),
    plan("ended-threads", "", Returns),
    plan("stale-translation", "", Dies(&["where nothing is mapped", "`counter`"])),
    plan("copies-elsewhere", "", Returns),
    plan("busy-elsewhere", "", Returns),
    plan("revoke-elsewhere", "", Returns),
    plan("changing-entries", "", ReturnsOrDies),
    plan("exit-scope", "2", Dies(&["EXIT with scope 0x2"])),
    plan("exit-scope", "ffffffffffffffff", Dies(&["EXIT with scope 0xffffffffffffffff"])),
    plan("corrupt-tail", "0", Dies(&["corrupted its rings", "submission tail"])),
    plan("corrupt-tail", "1", Dies(&["corrupted its rings", "submission tail"])),
    plan("corrupt-tail", "3", Dies(&["corrupted its rings", "submission tail"])),
    plan("corrupt-tail", "4", Dies(&["corrupted its rings", "submission tail"])),
    plan("corrupt-tail", "5", Dies(&["corrupted its rings", "submission tail"])),
    plan("corrupt-tail", "7", Dies(&["corrupted its rings", "submission tail"])),
    plan("corrupt-head", "0", Dies(&["corrupted its rings", "completion head"])),
    plan("corrupt-head", "1", Dies(&["corrupted its rings", "completion head"])),
    plan("corrupt-head", "2", Dies(&["corrupted its rings", "completion head"])),
    plan("corrupt-head", "5", Dies(&["corrupted its rings", "completion head"])),
    plan("corrupt-head", "6", Dies(&["corrupted its rings", "completion head"])),
    plan("corrupt-head", "7", Dies(&["corrupted its rings", "completion head"])),
    // Capabilities.
    plan("forged-capabilities", "", Returns),
    plan("stale-capabilities", "", Returns),
    plan("missing-rights", "", Returns),
    plan("confuse-objects", "", Returns),
    plan("release-own", "", Returns),
    plan("revoke-all", "", Returns),
    plan("derive-deep", "", Returns),
    // Calls.
    plan("answer-twice", "", Returns),
    plan("drop-reply", "", Returns),
    plan("pass-reply", "", Returns),
    plan("answer-cancelled", "", Returns),
    plan("call-itself", "", Returns),
    plan("move-in-flight", "", Returns),
    plan("cancel-all", "", Returns),
    plan("end-in-flight", "", Returns),
    plan("send-itself", "", Returns),
    plan("wait-on-replies", "", Returns),
    plan("wait-on-many-replies", "", Returns),
    // Exhaustion.
    plan(FEW_FRAMES, "", Returns),
    plan("exhaust-frames", "", Returns),
    plan("exhaust-page-tables", "", Returns),
    plan("exhaust-capabilities", "", Returns),
    plan("exhaust-objects", "", Returns),
    plan("exhaust-processes", "", Returns),
    plan("exhaust-threads", "", Returns),
    plan("exhaust-ring-slots", "", Returns),
    plan("exhaust-operations", "", Returns),
    sized("exhaust-kernel-heap", Size::ManyCapabilities, Returns),
    sized("exhaust-machine", Size::Everything, Returns),
    plan("bad-threads", "", Returns),
    plan("orphans", "", Returns),
    plan("account-chain", "", Returns),
    plan("dead-process", "", Returns),
    plan("kept-objects", "", Returns),
    plan("devices", "", Returns),
    // Memory.
    plan("read", "0", Dies(&["read from", "null pointer", "instruction 0x"])),
    plan("read", "fff8", Dies(&["read from address 0xfff8", "null pointer"])),
    plan("write", "0", Dies(&["wrote to", "null pointer"])),
    plan("jump", "0", Dies(&["jumped to", "null pointer"])),
    plan("read", "500000000000", Dies(&["read from address 0x500000000000", "nothing is mapped"])),
    plan("write", "500000000000", Dies(&["wrote to address 0x500000000000", "nothing is mapped"])),
    plan("jump", "500000000000", Dies(&["jumped to address 0x500000000000", "nothing is mapped"])),
    plan("read", "7ffffffff000", Dies(&["read from", "not user memory"])),
    plan("read", "ffff800000000000", Dies(&["read from", "not user memory"])),
    plan("write", "ffff800000100000", Dies(&["wrote to", "not user memory"])),
    plan("jump", "ffff800000100000", Dies(&["jumped to", "not user memory"])),
    plan("read", "ffffffff80000000", Dies(&["read from", "not user memory"])),
    plan("write", "ffffffff80000000", Dies(&["wrote to", "not user memory"])),
    plan("jump", "ffffffff80000000", Dies(&["jumped to", "not user memory"])),
    plan("read", "fffffffffffffff8", Dies(&["read from", "not user memory"])),
    plan("read", "800000000000", PROTECTED),
    plan("write", "ffff7ffffffffff8", PROTECTED),
    plan("jump", "800000000000", PROTECTED),
    plan("write-constants", "", Dies(&["wrote to read-only memory at 0x400000", "memory object"])),
    plan("write-code", "", Dies(&["wrote to read-only memory", "memory object"])),
    plan("write-launch-record", "", Dies(&["wrote to read-only memory at 0x7fff00000000"])),
    plan("write-alias", "", Dies(&["wrote to read-only memory", "memory object"])),
    plan("run-stack", "", Dies(&["jumped to non-executable memory"])),
    plan("run-heap", "", Dies(&["jumped to non-executable memory"])),
    plan("run-ring", "", Dies(&["jumped to non-executable memory"])),
    plan(
        "stack-overflow",
        "",
        Dies(&["wrote to address 0x7ffcfff", "nothing is mapped, just below its stack, which is full"]),
    ),
    plan("bad-mappings", "", Returns),
    plan("mapping-rights", "", Returns),
    plan("random-mappings", "1", Returns),
    plan("random-mappings", "2", Returns),
    plan("random-mappings", "3", Returns),
    plan("revoked-mapping", "", Dies(&["wrote to", "nothing is mapped"])),
    plan("unmap-ring", "", Dies(&["read from address 0x7ffe", "nothing is mapped"])),
    plan("unmap-code", "", Dies(&["jumped to", "nothing is mapped"])),
    plan("unmap-stack", "", Dies(&["address 0x7ffcfff", "nothing is mapped"])),
    plan("unmap-all", "", Dies(&["nothing is mapped"])),
    // Privilege.
    instruction("in-byte"),
    instruction("in-word"),
    instruction("in-long"),
    instruction("in-fixed"),
    instruction("out-byte"),
    instruction("out-exit"),
    instruction("out-reset"),
    instruction("out-string"),
    instruction("cli"),
    instruction("sti"),
    instruction("hlt"),
    instruction("lgdt"),
    instruction("lidt"),
    instruction("lldt"),
    instruction("ltr"),
    instruction("read-cr0"),
    instruction("read-cr3"),
    instruction("write-cr0"),
    instruction("write-cr3"),
    instruction("write-cr4"),
    instruction("write-dr7"),
    instruction("rdmsr"),
    instruction("wrmsr"),
    instruction("xsetbv"),
    instruction("invlpg"),
    instruction("invd"),
    instruction("wbinvd"),
    instruction("swapgs"),
    instruction("clts"),
    instruction("lmsw"),
    instruction("sysret"),
    // Emulators know several ways to refuse these two.
    instruction_dies("iret-to-kernel", &["exception", "instruction 0x"]),
    instruction_dies("far-jump-to-kernel", &["exception", "instruction 0x"]),
    instruction("kernel-code-segment"),
    instruction("bad-segment"),
    instruction_dies("invalid", &["exception 6"]),
    instruction_dies("divide", &["exception 0"]),
    instruction_dies("breakpoint", &["exception"]),
    instruction("int-0"),
    instruction("int-1"),
    instruction("int-2"),
    instruction("int-4"),
    instruction("int-8"),
    instruction("int-13"),
    instruction("int-14"),
    instruction("int-18"),
    instruction("int-32"),
    instruction("int-33"),
    instruction("int-48"),
    instruction("int-128"),
    instruction("int-254"),
    instruction("int-255"),
    instruction("non-canonical-read"),
    instruction_dies("non-canonical-stack", &["exception 1"]),
    instruction("non-canonical-jump"),
    plan("instruction", "simd-exception", ReturnsOrDies),
    instruction_dies("x87-exception", &["exception 16"]),
    instruction("aligned-load"),
    instruction_dies("single-step", &["exception 1,"]),
    instruction_dies("lock-prefix", &["exception 6"]),
    instruction("long-instruction"),
    plan("system-call", "3", Dies(&["system call 0x3,", "does not exist"])),
    plan("system-call", "100000000", Dies(&["system call 0x100000000,", "does not exist"])),
    plan("system-call", "8000000000000001", Dies(&["does not exist"])),
    plan("system-call", "ffffffffffffffff", Dies(&["system call 0xffffffffffffffff,", "does not exist"])),
    plan("invoke-registers", "", Returns),
    plan("invoke-refusals", "", Returns),
    plan("invoke-random", "1", Returns),
    plan("invoke-random", "2", Returns),
    instruction_dies("traced-invoke", &["exception 1,"]),
    plan("processor-states", "", Returns),
    plan("gs-base", "", Dies(&["exception 6"])),
    plan("descriptor-tables", "", PROTECTED),
    // Time and noise.
    plan("spin", "", Runs),
    plan("enter", "", Runs),
    plan("storm-of-nops", "", Runs),
    plan("storm-of-calls", "", Runs),
    plan("storm-of-signals", "", Runs),
    plan("sleep", "", Returns),
    spending("spin"),
    spending("enter"),
    spending("nops"),
    spending("calls"),
    spending("signals"),
    spending("child"),
    spending("limited-child"),
    plan("cut-account", "", Returns),
    plan("huge-arguments", "", Returns),
    plan("log", "", Returns),
    // Pagers.
    plan("bad-paged-memory", "", Returns),
    plan("revoked-pager", "", PAGER_GONE),
    plan("revoked-pager-by-kernel", "", PAGER_GONE),
    plan("own-pager", "", Runs),
    plan("own-pager-by-kernel", "", Runs),
    paged("read-weights", "a5", Returns, "honest", Runs),
    paged("read-weights-by-kernel", "", Returns, "honest", Runs),
    paged(
        "write-weights",
        "",
        Dies(&["wrote to read-only memory", "paged memory object", "offset 0x0"]),
        "honest",
        Runs,
    ),
    paged("read-weights", "0", Returns, "empty", Runs),
    paged("read-weights", "0", Returns, "no-window", Runs),
    paged("read-weights", "a5", Returns, "twice", Runs),
    paged("read-weights", "a5", Returns, "unmaps", Runs),
    paged("read-weights", "a5", Returns, "keeps-capability", Runs),
    paged("read-weights", "a5", Returns, "copies-window", Runs),
    paged("read-weights", "a5", Returns, "code", Runs),
    paged("read-weights", "a5", Returns, "bad-pointer", Runs),
    paged(
        "read-weights",
        "a5",
        Dies(&["at offset 0x20000", "pager failed", "is gone"]),
        "keeps-mapping",
        Dies(&["wrote to address 0x600000000000", "nothing is mapped"]),
    ),
    paged(
        "read-weights",
        "0",
        Dies(&["paged memory object", "pager failed", "the disk is on fire"]),
        "exception",
        Runs,
    ),
    paged("read-weights", "0", Dies(&["paged memory object", "pager failed"]), "forged-words", Runs),
    paged("read-weights", "0", Dies(&["paged memory object", "pager failed"]), "binary-words", Runs),
    paged("read-weights", "0", PAGER_GONE, "dies", Returns),
    paged("read-weights", "0", PAGER_GONE, "drops", Runs),
    paged("read-weights", "0", Runs, "never", Runs),
    paged("read-weights", "0", Runs, "late", Runs),
    paged("read-weights", "0", Runs, "late-exception", Runs),
    paged("copy-weights", "", Returns, "honest", Runs),
    paged("copy-weights", "", Returns, "copies-window", Runs),
    paged("copy-weights", "disk", Returns, "exception", Runs),
    paged("copy-weights", "gone", Returns, "dies", Returns),
    paged("copy-weights", "gone", Returns, "drops", Runs),
    paged("copy-weights", "", Runs, "never", Runs),
    paged("copy-weights", "", Runs, "late", Runs),
    paged("answer-from-weights", "", Returns, "honest", Runs),
    paged("read-weights", "0", Runs, "touches-itself", Runs),
    // Ordinary programs on std.
    on_std("std-nothing", "", Returns),
    on_std("std-climbing-paths", "", Returns),
    on_std("std-other-names", "", Returns),
    on_std("std-malformed-paths", "", Returns),
    on_std("std-links", "", Returns),
    on_std("std-read-only-grants", "", Returns),
    on_std("std-read-only-files", "", Returns),
    on_std("std-renames-in-between", "", Returns),
    on_std("std-changing-paths", "", Returns),
    on_std("std-wrong-descriptors", "", Returns),
    on_std("std-descriptors-of-the-wrong-kind", "", Returns),
    on_std("std-reused-descriptors", "", Returns),
    on_std("std-descriptors-across-threads", "", Returns),
    on_std("std-all-descriptors", "", Returns),
    on_std("std-all-open-files", "", Returns),
    on_std("std-all-memory", "", Returns),
    on_std("std-all-threads", "", Returns),
    on_std("std-no-memory-left", "", Exits(134)),
    on_std(
        "std-deep-recursion",
        "",
        Dies(&["wrote to address 0x7ffcfff", "nothing is mapped, just below its stack, which is full"]),
    ),
    on_std("std-deep-recursion-of-a-thread", "", Dies(&["wrote to address", "just below its stack", "`deep`"])),
    on_std("std-signals", "", Returns),
    on_std("std-other-processes", "", Returns),
    on_std("std-missing-system-calls", "", Returns),
    on_std("std-futex", "", Returns),
    on_std("std-huge-arguments", "", Returns),
    // Linux' numbers of read, write, open, mmap, execve, exit and futex.
    on_std("std-system-call-instruction", "0", Returns),
    on_std("std-system-call-instruction", "1", Dies(&["EXIT with scope 0x"])),
    on_std("std-system-call-instruction", "3", Dies(&["system call 0x3,", "does not exist"])),
    on_std("std-system-call-instruction", "9", Dies(&["system call 0x9,", "does not exist"])),
    on_std("std-system-call-instruction", "3b", Dies(&["system call 0x3b,", "does not exist"])),
    on_std("std-system-call-instruction", "3c", Dies(&["system call 0x3c,", "does not exist"])),
    on_std("std-system-call-instruction", "ca", Dies(&["system call 0xca,", "does not exist"])),
    on_std("std-code-in-data", "", Dies(&["jumped to non-executable memory"])),
    on_std("std-write-launch-record", "", Dies(&["wrote to read-only memory at 0x7fff00000000"])),
    on_std("std-guessed-capabilities", "", Returns),
    on_std("std-forged-entries", "", Returns),
    on_std("std-forged-tail", "", Dies(&["corrupted its rings", "submission tail"])),
    on_std("std-forged-head", "", Dies(&["corrupted its rings", "completion head"])),
    on_std("std-stolen-answers", "", Anyhow),
    on_std("std-random-entries", "1", ReturnsOrDies),
    on_std("std-random-entries", "2", ReturnsOrDies),
    on_std("std-random-entries", "3", ReturnsOrDies),
    plan("nothing", "", Returns),
];
