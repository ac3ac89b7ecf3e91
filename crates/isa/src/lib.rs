//! The instruction set that kernels run on.
//!
//! It is chosen once for a process: the widest that the machine has, or a lower one that the environment variable
//! `ZELLIGE_ISA` names (`avx512`, `avx2`, `neon` or `baseline`), so that every kernel can be measured on every set on one machine. Tests
//! lower it for a while with [`Isa::while_lowered`].
//!
//! Results do not depend on it: kernels for different sets write the same bits.
//!
//! # What it may not do
//! Know what kernels there are. It depends on no other crate of the workspace.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// An instruction set that this machine has: there is no way to get a value for one that it has not, so that holding
/// one is the proof that its instructions may run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Isa(Kind);

/// The instruction sets that kernels are written or compiled for. Of one architecture, each has all of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// What compilers make of plain loops for every machine of the target: SSE2 on x86-64, NEON on AArch64.
    Baseline,
    /// Kernels written for NEON, which every AArch64 machine has.
    Neon,
    /// AVX2, with fused multiply-add and conversions of float16.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Kind {
    /// Every set of this architecture, lowest first.
    #[cfg(target_arch = "aarch64")]
    pub const ALL: [Kind; 2] = [Kind::Baseline, Kind::Neon];
    /// Every set of this architecture, lowest first.
    #[cfg(not(target_arch = "aarch64"))]
    pub const ALL: [Kind; 3] = [Kind::Baseline, Kind::Avx2, Kind::Avx512];

    /// As `ZELLIGE_ISA` names it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Baseline => "baseline",
            Kind::Neon => "neon",
            Kind::Avx2 => "avx2",
            Kind::Avx512 => "avx512",
        }
    }
}

/// The environment variable that lowers the instruction set.
pub const VARIABLE: &str = "ZELLIGE_ISA";

/// The number of the chosen set plus 1; 0 before it is chosen.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// Held while a set is lowered.
static LOWERED: Mutex<()> = Mutex::new(());

impl Isa {
    /// The set that every machine has.
    pub const BASELINE: Isa = Isa(Kind::Baseline);

    /// The set of that kind, where this machine has it.
    pub fn of(kind: Kind) -> Option<Isa> {
        (Kind::ALL.contains(&kind) && kind <= Isa::detected().0).then_some(Isa(kind))
    }

    /// Every set of this machine, lowest first.
    pub fn available() -> impl Iterator<Item = Isa> {
        Kind::ALL.into_iter().filter_map(Isa::of)
    }

    /// The widest set of this machine.
    pub fn detected() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            match (avx2, avx512) {
                (true, true) => Isa(Kind::Avx512),
                (true, false) => Isa(Kind::Avx2),
                (false, _) => Isa(Kind::Baseline),
            }
        }
        // Miri knows none of the instructions that kernels for NEON are written with.
        #[cfg(target_arch = "aarch64")]
        if !cfg!(miri) && std::arch::is_aarch64_feature_detected!("neon") {
            Isa(Kind::Neon)
        } else {
            Isa::BASELINE
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        Isa::BASELINE
    }

    /// The set that this process uses.
    #[inline]
    pub fn best() -> Isa {
        match CHOSEN.load(Ordering::Relaxed) {
            0 => Isa::choose(),
            1 => Isa(Kind::Baseline),
            2 => Isa(Kind::Neon),
            3 => Isa(Kind::Avx2),
            // Only sets that the machine has are stored.
            _ => Isa(Kind::Avx512),
        }
    }

    /// Chooses, the first time that a set is asked for. A variable that names no set of this machine changes nothing; programs
    /// say so at their start ([`Isa::asked`]).
    #[cold]
    fn choose() -> Isa {
        let isa = Isa::asked().ok().flatten().unwrap_or_else(Isa::detected);
        // Another thread may have chosen or lowered it meanwhile.
        let _ = CHOSEN.compare_exchange(0, isa.stored(), Ordering::Relaxed, Ordering::Relaxed);
        Isa::best()
    }

    fn stored(self) -> u8 {
        self.0 as u8 + 1
    }

    /// The set that `ZELLIGE_ISA` asks for; none where it is not set or empty.
    ///
    /// # Errors
    /// A name that is no set of this machine, in words that name all of them.
    pub fn asked() -> Result<Option<Isa>, String> {
        match std::env::var(VARIABLE) {
            Ok(name) if !name.is_empty() => Isa::parse(&name).map(Some),
            Ok(_) | Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => {
                Err(format!("{VARIABLE} is no text; the sets of this machine are {}", names()))
            }
        }
    }

    /// The set of that name.
    ///
    /// # Errors
    /// As [`Isa::asked`].
    pub fn parse(name: &str) -> Result<Isa, String> {
        Isa::available().find(|isa| isa.name() == name).ok_or_else(|| {
            let shown: String = name.chars().take(40).collect();
            let names = names();
            format!(
                "{VARIABLE}={shown}: this machine has no such instruction set; its sets are {names}"
            )
        })
    }

    /// Runs `work` while the whole process uses this set, also in other threads. One caller at a time; the set is what it
    /// was before when `work` ends, also by a panic.
    pub fn while_lowered<T>(self, work: impl FnOnce() -> T) -> T {
        struct Restore(u8);
        impl Drop for Restore {
            fn drop(&mut self) {
                CHOSEN.store(self.0, Ordering::Relaxed);
            }
        }
        let _one = LOWERED.lock().unwrap_or_else(PoisonError::into_inner);
        let _restore = Restore(Isa::best().stored());
        CHOSEN.store(self.stored(), Ordering::Relaxed);
        work()
    }

    /// What it is, to choose a kernel by.
    #[inline]
    pub fn kind(self) -> Kind {
        self.0
    }

    /// Whether it has kernels written for NEON.
    #[inline]
    pub fn has_neon(self) -> bool {
        self.0 == Kind::Neon
    }

    /// Whether it has AVX2.
    #[inline]
    pub fn has_avx2(self) -> bool {
        self.0 >= Kind::Avx2
    }

    /// Whether it has AVX-512.
    #[inline]
    pub fn has_avx512(self) -> bool {
        self.0 >= Kind::Avx512
    }

    /// As `ZELLIGE_ISA` names it.
    pub fn name(self) -> &'static str {
        self.0.name()
    }
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The sets of this machine.
fn names() -> String {
    Isa::available().map(Isa::name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_those_of_the_machine() {
        let all: Vec<Isa> = Isa::available().collect();
        assert_eq!(all.first(), Some(&Isa::BASELINE));
        assert_eq!(all.last(), Some(&Isa::detected()));
        for isa in &all {
            assert_eq!(Isa::parse(isa.name()), Ok(*isa));
        }
        let known = all.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
        let every = [Kind::Baseline, Kind::Neon, Kind::Avx2, Kind::Avx512];
        let others = every.into_iter().filter(|k| Isa::of(*k).is_none()).map(Kind::name);
        for name in others.chain(["sse9", "AVX2", "neon "]) {
            let why = Isa::parse(name).expect_err("no set of this machine");
            assert_eq!(
                why,
                format!(
                    "ZELLIGE_ISA={name}: this machine has no such instruction set; its sets are {known}"
                )
            );
        }
    }

    /// Sets of another architecture are none of this machine's.
    #[test]
    fn sets_are_of_one_architecture() {
        assert_eq!(Isa::of(Kind::Neon).is_some(), cfg!(all(target_arch = "aarch64", not(miri))));
        for isa in Isa::available() {
            assert_eq!(isa.has_neon(), isa.name() == "neon");
            assert_eq!(isa.has_avx2(), isa.name().starts_with("avx"));
            assert!(!isa.has_avx512() || isa.has_avx2());
        }
    }

    #[test]
    fn a_lowered_set_ends_with_the_work() {
        let before = Isa::best();
        for isa in Isa::available() {
            assert_eq!(isa.while_lowered(Isa::best), isa);
            let panicked = std::panic::catch_unwind(|| isa.while_lowered(|| panic!("inside")));
            assert!(panicked.is_err());
        }
        assert_eq!(Isa::best(), before);
    }
}
