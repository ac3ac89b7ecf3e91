//! The instruction set that a loop runs on.

/// An instruction set that this machine has; there is no other way to get a value of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(pub(super) Kind);

/// The instruction sets that loops are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// What every machine of the target has.
    Baseline,
    /// AVX2, without fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The widest of this machine; a test may ask for another with `run_on`.
    #[inline]
    pub fn best() -> Isa {
        #[cfg(test)]
        if let Some(isa) = FORCED.get() {
            return isa;
        }
        Isa::detect()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn detect() -> Isa {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            Isa(Kind::Avx512)
        } else if is_x86_feature_detected!("avx2") {
            Isa(Kind::Avx2)
        } else {
            Isa(Kind::Baseline)
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    fn detect() -> Isa {
        Isa(Kind::Baseline)
    }
}

/// A loop over numbers that [`Isa::run`] compiles for every instruction set.
pub trait Loop {
    /// What it gives.
    type Out;

    /// The loop; `#[inline(always)]`, with everything it calls, so that it is compiled anew.
    fn run(self) -> Self::Out;
}

impl Isa {
    /// Runs a loop that was compiled for this instruction set.
    pub fn run<L: Loop>(self, work: L) -> L::Out {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn avx512<L: Loop>(work: L) -> L::Out {
            work.run()
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        fn avx2<L: Loop>(work: L) -> L::Out {
            work.run()
        }

        match self.0 {
            // SAFETY: a value of `Isa` exists only where the machine has its instructions.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { avx512(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { avx2(work) },
            Kind::Baseline => work.run(),
        }
    }
}

#[cfg(test)]
thread_local! {
    static FORCED: std::cell::Cell<Option<Isa>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
impl Isa {
    /// All that this machine has.
    pub(super) fn all() -> Vec<Isa> {
        let mut all = vec![Isa(Kind::Baseline)];
        #[cfg(target_arch = "x86_64")]
        {
            let best = Isa::detect();
            if best != all[0] {
                all.push(Isa(Kind::Avx2));
            }
            if best == Isa(Kind::Avx512) {
                all.push(best);
            }
        }
        all
    }

    /// Runs `work` with every loop of this thread on `self`.
    pub(super) fn run_on<T>(self, work: impl FnOnce() -> T) -> T {
        FORCED.set(Some(self));
        let done = work();
        FORCED.set(None);
        done
    }
}

/// Compiles the body of a function for every [`Isa`] and calls the best one.
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
            #[target_feature(enable = "avx2")]
            fn avx2($($arg: $ty),*) $(-> $ret)? {
                body($($arg),*)
            }

            match $crate::isa::Isa::best().0 {
                // SAFETY: a value of `Isa` exists only where the machine has its instructions.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Kind::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Kind::Avx2 => unsafe { avx2($($arg),*) },
                $crate::isa::Kind::Baseline => body($($arg),*),
            }
        }
    };
}
pub(super) use multiversion;
