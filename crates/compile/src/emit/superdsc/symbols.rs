//! Addresses as kernels name them: numbers, or symbols that the bundle computes.

use crate::emit::{BufferAddress, KernelAddressing};

/// What a symbol names: an argument or the pool, and a byte behind its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SdscSymbol {
    /// None is the pool.
    pub(super) argument: Option<usize>,
    pub(super) offset: u64,
}

impl SdscSymbol {
    /// The value of the bundle that holds it.
    pub(super) fn bundle_value(self) -> String {
        match self {
            SdscSymbol { argument: Some(k), offset: 0 } => format!("%arg_{k}"),
            SdscSymbol { argument: Some(k), offset } => format!("%arg_{k}_core_{offset}"),
            SdscSymbol { argument: None, offset } => format!("%pool_addr_{offset}"),
        }
    }
}

/// All symbols of a bundle. Number `-(i + 1)` is the symbol at `i` of those of a kernel, which every kernel counts anew:
/// kernels that differ in their addresses alone are one file, and each execution binds the numbers.
#[derive(Debug)]
pub(super) struct SdscSymbols {
    addresses: KernelAddressing,
    all: Vec<SdscSymbol>,
    /// Where those of the current kernel begin.
    from: usize,
}

impl SdscSymbols {
    pub(super) fn new(addresses: KernelAddressing) -> SdscSymbols {
        SdscSymbols { addresses, all: Vec::new(), from: 0 }
    }

    /// Whether device memory is named by symbols.
    pub(super) fn is_symbolic(&self) -> bool {
        self.addresses == KernelAddressing::Symbolic
    }

    /// Every symbol.
    pub(super) fn all_symbols(&self) -> &[SdscSymbol] {
        &self.all
    }

    /// Begins a kernel: symbols are shared within one.
    pub(super) fn begin_kernel(&mut self) {
        self.from = self.all.len();
    }

    /// The symbols of the current kernel, with their numbers.
    pub(super) fn current_symbols(&self) -> Vec<(i64, SdscSymbol)> {
        let all = self.all.iter().enumerate().skip(self.from);
        all.map(|(i, s)| (symbol_number(i - self.from), *s)).collect()
    }

    /// Takes back what was registered after the first `count` symbols.
    pub(super) fn truncate(&mut self, count: usize) {
        self.all.truncate(count);
    }

    /// How a byte of a buffer is named; why where it has no address.
    pub(super) fn name_byte(&mut self, base: BufferAddress, offset: u64) -> Result<String, String> {
        let symbol = match base {
            // Every core has its own slice there, at one address.
            BufferAddress::Lx(at) => return Ok(at.to_string()),
            BufferAddress::Argument(k, _) => SdscSymbol { argument: Some(k), offset },
            BufferAddress::Pool(at) => SdscSymbol { argument: None, offset: at + offset },
        };
        if !self.is_symbolic() {
            let at = base
                .planned_address()
                .ok_or("the segments of device memory do not hold its tensors")?;
            return Ok((at + offset).to_string());
        }
        // Symbols are shared within a kernel alone, as in torch-spyre: every kernel binds its own list when it is
        // executed.
        let known = self.all[self.from..].iter().position(|s| *s == symbol);
        let at = known.unwrap_or_else(|| {
            self.all.push(symbol);
            self.all.len() - 1 - self.from
        });
        Ok(symbol_number(at).to_string())
    }
}

fn symbol_number(at: usize) -> i64 {
    // Negative, so that a reader can tell a symbol from an address in the same field.
    -1 - i64::try_from(at).unwrap_or(i64::MAX - 1)
}
