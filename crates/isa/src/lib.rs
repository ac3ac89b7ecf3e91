//! The instruction set that kernels run on.
//!
//! It is chosen once for a process: the widest that the machine has, or a lower one that the environment variable
//! `ZELLIGE_ISA` names (`avx512`, `avx2`, `neon` or `baseline`), so that kernels for every set can be measured on one
//! machine. Tests lower it for a while with [`Isa::while_lowered`].
//!
//! Results do not depend on it: kernels for different sets write the same bits.
//!
//! # What it may not do
//! Know which kernels exist. It depends on no other crate of the workspace.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// An instruction set that this machine has. Values for other sets cannot be made, so that holding one is the proof that
/// its instructions may run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Isa(IsaKind);

/// The instruction sets that kernels are written or compiled for. Within one architecture, each set contains those
/// before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IsaKind {
    /// The instructions that compilers use for every machine of the target: SSE2 on x86-64, NEON on AArch64.
    Baseline,
    /// Kernels written for NEON, which every AArch64 machine has.
    Neon,
    /// AVX2, with fused multiply-add and conversions of float16.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl IsaKind {
    /// Every set of this architecture, lowest first.
    #[cfg(target_arch = "aarch64")]
    pub const ALL: [IsaKind; 2] = [IsaKind::Baseline, IsaKind::Neon];
    /// Every set of this architecture, lowest first.
    #[cfg(not(target_arch = "aarch64"))]
    pub const ALL: [IsaKind; 3] = [IsaKind::Baseline, IsaKind::Avx2, IsaKind::Avx512];

    /// As `ZELLIGE_ISA` names it.
    pub fn name(self) -> &'static str {
        match self {
            IsaKind::Baseline => "baseline",
            IsaKind::Neon => "neon",
            IsaKind::Avx2 => "avx2",
            IsaKind::Avx512 => "avx512",
        }
    }
}

/// The environment variable that lowers the instruction set.
pub const VARIABLE: &str = "ZELLIGE_ISA";

/// The number of the chosen set plus 1; 0 before it is chosen.
static CHOSEN_ISA: AtomicU8 = AtomicU8::new(0);

/// Held while a set is lowered.
static LOWERED_LOCK: Mutex<()> = Mutex::new(());

impl Isa {
    /// The set that every machine has.
    pub const BASELINE: Isa = Isa(IsaKind::Baseline);

    /// The set of that kind, where this machine has it.
    pub fn if_available(kind: IsaKind) -> Option<Isa> {
        (IsaKind::ALL.contains(&kind) && kind <= Isa::detect_widest().0).then_some(Isa(kind))
    }

    /// Every set of this machine, lowest first.
    pub fn all_available() -> impl Iterator<Item = Isa> {
        IsaKind::ALL.into_iter().filter_map(Isa::if_available)
    }

    /// The widest set of this machine.
    pub fn detect_widest() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            // Kernels of a set use all of these together, so a machine that lacks one of them has the next lower set; a
            // hypervisor may hide single ones.
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            match (avx2, avx512) {
                (true, true) => Isa(IsaKind::Avx512),
                (true, false) => Isa(IsaKind::Avx2),
                (false, _) => Isa(IsaKind::Baseline),
            }
        }
        // Miri does not implement the intrinsics that kernels for NEON are written with.
        #[cfg(target_arch = "aarch64")]
        if !cfg!(miri) && std::arch::is_aarch64_feature_detected!("neon") {
            Isa(IsaKind::Neon)
        } else {
            Isa::BASELINE
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        Isa::BASELINE
    }

    /// The set that this process uses.
    #[inline]
    pub fn process_isa() -> Isa {
        match CHOSEN_ISA.load(Ordering::Relaxed) {
            0 => Isa::choose_process_isa(),
            1 => Isa(IsaKind::Baseline),
            2 => Isa(IsaKind::Neon),
            3 => Isa(IsaKind::Avx2),
            // Only sets that the machine has are stored.
            _ => Isa(IsaKind::Avx512),
        }
    }

    /// Chooses the set, the first time that it is wanted. A variable that names no set of this machine is ignored here;
    /// programs report it at their start ([`Isa::requested_by_variable`]).
    #[cold]
    fn choose_process_isa() -> Isa {
        let isa = Isa::requested_by_variable().ok().flatten().unwrap_or_else(Isa::detect_widest);
        // Another thread may have chosen or lowered it meanwhile; its choice is kept, so that all kernels of the process
        // agree.
        let _ = CHOSEN_ISA.compare_exchange(
            0,
            isa.stored_number(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        Isa::process_isa()
    }

    fn stored_number(self) -> u8 {
        self.0 as u8 + 1
    }

    /// The set that `ZELLIGE_ISA` names; none where it is not set or empty.
    ///
    /// # Errors
    /// A name that is no set of this machine; the message lists the sets that are.
    pub fn requested_by_variable() -> Result<Option<Isa>, String> {
        match std::env::var(VARIABLE) {
            Ok(name) if !name.is_empty() => Isa::parse(&name).map(Some),
            Ok(_) | Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => Err(format!(
                "{VARIABLE} is no text; the sets of this machine are {}",
                available_names()
            )),
        }
    }

    /// The set of that name.
    ///
    /// # Errors
    /// As [`Isa::requested_by_variable`].
    pub fn parse(name: &str) -> Result<Isa, String> {
        Isa::all_available().find(|isa| isa.name() == name).ok_or_else(|| {
            // A variable may hold anything of any length, and this is a message.
            let shown: String = name.chars().take(40).collect();
            let names = available_names();
            format!(
                "{VARIABLE}={shown}: this machine has no such instruction set; its sets are {names}"
            )
        })
    }

    /// Runs `work` while the whole process uses this set, also in other threads. One caller at a time; the set is what it
    /// was before when `work` ends, also by a panic.
    pub fn while_lowered<T>(self, work: impl FnOnce() -> T) -> T {
        struct RestoreIsa(u8);
        impl Drop for RestoreIsa {
            fn drop(&mut self) {
                CHOSEN_ISA.store(self.0, Ordering::Relaxed);
            }
        }
        let _one = LOWERED_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let _restore = RestoreIsa(Isa::process_isa().stored_number());
        CHOSEN_ISA.store(self.stored_number(), Ordering::Relaxed);
        work()
    }

    /// Its kind, by which a kernel is chosen.
    #[inline]
    pub fn kind(self) -> IsaKind {
        self.0
    }

    /// Whether it has kernels written for NEON.
    #[inline]
    pub fn has_neon(self) -> bool {
        self.0 == IsaKind::Neon
    }

    /// Whether it has AVX2.
    #[inline]
    pub fn has_avx2(self) -> bool {
        self.0 >= IsaKind::Avx2
    }

    /// Whether it has AVX-512.
    #[inline]
    pub fn has_avx512(self) -> bool {
        self.0 >= IsaKind::Avx512
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
fn available_names() -> String {
    Isa::all_available().map(Isa::name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_those_of_the_machine() {
        let all: Vec<Isa> = Isa::all_available().collect();
        assert_eq!(all.first(), Some(&Isa::BASELINE));
        assert_eq!(all.last(), Some(&Isa::detect_widest()));
        for isa in &all {
            assert_eq!(Isa::parse(isa.name()), Ok(*isa));
        }
        let known = all.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
        let every = [IsaKind::Baseline, IsaKind::Neon, IsaKind::Avx2, IsaKind::Avx512];
        let others =
            every.into_iter().filter(|k| Isa::if_available(*k).is_none()).map(IsaKind::name);
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
        assert_eq!(
            Isa::if_available(IsaKind::Neon).is_some(),
            cfg!(all(target_arch = "aarch64", not(miri)))
        );
        for isa in Isa::all_available() {
            assert_eq!(isa.has_neon(), isa.name() == "neon");
            assert_eq!(isa.has_avx2(), isa.name().starts_with("avx"));
            assert!(!isa.has_avx512() || isa.has_avx2());
        }
    }

    #[test]
    fn a_lowered_set_ends_with_the_work() {
        let before = Isa::process_isa();
        for isa in Isa::all_available() {
            assert_eq!(isa.while_lowered(Isa::process_isa), isa);
            let panicked = std::panic::catch_unwind(|| isa.while_lowered(|| panic!("inside")));
            assert!(panicked.is_err());
        }
        assert_eq!(Isa::process_isa(), before);
    }
}
