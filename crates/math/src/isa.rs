//! Loops that are compiled for every instruction set. Compilers fuse a multiply-add only where a formula asks for it
//! (`mul_add`); the baseline of x86-64 has no such instruction and calls a function for it, with the same bits.

use zellige_isa::Isa;
#[cfg(target_arch = "x86_64")]
use zellige_isa::IsaKind;

/// A loop over numbers that [`run_for_isa`] compiles for every instruction set.
pub trait IsaLoop {
    /// What it gives.
    type Out;

    /// The loop; `#[inline(always)]`, with everything it calls, so that it is compiled anew.
    fn run_loop(self) -> Self::Out;
}

/// Runs a loop that was compiled for this instruction set.
pub fn run_for_isa<L: IsaLoop>(isa: Isa, work: L) -> L::Out {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn run_avx512<L: IsaLoop>(work: L) -> L::Out {
        work.run_loop()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn run_avx2<L: IsaLoop>(work: L) -> L::Out {
        work.run_loop()
    }

    match isa.kind() {
        // SAFETY: a value of `Isa` exists only where the machine has its instructions.
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx512 => unsafe { run_avx512(work) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 => unsafe { run_avx2(work) },
        _ => work.run_loop(),
    }
}

/// Compiles the body of a function for every instruction set and calls the best one.
macro_rules! multiversion {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
    ) => {
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512($($arg: $ty),*) $(-> $ret)? {
                body($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $ty),*) $(-> $ret)? {
                body($($arg),*)
            }

            match zellige_isa::Isa::process_isa().kind() {
                // SAFETY: a value of `Isa` exists only where the machine has its instructions.
                #[cfg(target_arch = "x86_64")]
                zellige_isa::IsaKind::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                zellige_isa::IsaKind::Avx2 => unsafe { avx2($($arg),*) },
                _ => body($($arg),*),
            }
        }
    };
}
pub(super) use multiversion;
