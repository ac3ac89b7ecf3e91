//! Compilation of CUDA C++, once for every text, and its cache.

use super::error::DriverError;
use super::nvrtc::Nvrtc;
use std::sync::LazyLock;
use zellige_files::{CacheLookup, ContentCache, content_hash};

/// An image that the driver loads: machine code, or PTX where the compiler does not know the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelImage {
    /// The bytes; PTX ends in a zero.
    pub bytes: Vec<u8>,
    /// Whether it was compiled before, by this process or another.
    pub cached: bool,
}

/// Entries of the cache on disk. A kernel has a few kilobytes.
const MOST_ENTRIES: usize = 4096;

/// Compiles a text for a device of an architecture (`90` for sm_90), or takes it from the cache on disk.
///
/// The key is everything that the result depends on: the text, the options, of which the architecture is one, and
/// the version of the compiler.
///
/// # Errors
/// [`DriverError::NoNvrtc`] where there is no compiler, [`DriverError::Compile`] where it refuses the text.
pub fn compile_cached(source: &str, arch: i32) -> Result<KernelImage, DriverError> {
    static CACHE: LazyLock<ContentCache> =
        LazyLock::new(|| ContentCache::new("cubin", MOST_ENTRIES));
    compile_with_cache(&CACHE, Nvrtc::load_once()?, source, arch)
}

fn compile_with_cache(
    cache: &ContentCache,
    nvrtc: &Nvrtc,
    source: &str,
    arch: i32,
) -> Result<KernelImage, DriverError> {
    let options =
        [format!("--gpu-architecture={}", nvrtc.target_option(arch)), "-std=c++17".to_owned()];
    // Another version of the compiler may write other machine code for the same text.
    let (major, minor) = nvrtc.version();
    let version = format!("nvrtc {major}.{minor}");
    let mut parts = vec![source.as_bytes(), version.as_bytes()];
    parts.extend(options.iter().map(|o| o.as_bytes()));
    let key = content_hash(&parts);
    // A cache that cannot be read or written costs a compilation and nothing else, so its failures are ignored.
    if let CacheLookup::Entry(bytes) = cache.look_up(&key) {
        return Ok(KernelImage { bytes, cached: true });
    }
    let bytes = nvrtc.compile_source(source, &options)?;
    cache.store_entry(&key, &bytes);
    Ok(KernelImage { bytes, cached: false })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const KERNEL: &str = "extern \"C\" __global__ void move(const unsigned char* src, unsigned char* dst) {\n\
        dst[blockIdx.x * blockDim.x + threadIdx.x] = src[blockIdx.x * blockDim.x + threadIdx.x];\n}\n";

    /// The compiler, where there is one; `./test --long cuda` brings one, and there its absence is a failure.
    fn find_nvrtc_for_test(test: &str) -> Option<&'static Nvrtc> {
        match Nvrtc::load_once() {
            Ok(found) => Some(found),
            Err(why) => {
                assert!(std::env::var_os("ZELLIGE_NVRTC").is_none(), "{why}");
                eprintln!("{test} is skipped: {why}");
                None
            }
        }
    }

    #[test]
    fn a_text_is_compiled_once() {
        let Some(nvrtc) = find_nvrtc_for_test("a_text_is_compiled_once") else { return };
        let folder = std::env::temp_dir().join(format!("zellige-cubins-{}", std::process::id()));
        let cache = ContentCache::in_folder(&folder, "cubin", 4);
        let first = compile_with_cache(&cache, nvrtc, KERNEL, 90).unwrap();
        assert!(
            !first.cached && first.bytes.starts_with(b"\x7fELF"),
            "machine code is an ELF file"
        );
        let again = compile_with_cache(&cache, nvrtc, KERNEL, 90).unwrap();
        assert!(again.cached && again.bytes == first.bytes);
        assert!(!compile_with_cache(&cache, nvrtc, KERNEL, 80).unwrap().cached, "another device");
        assert!(!compile_with_cache(&cache, nvrtc, &format!("{KERNEL}\n"), 90).unwrap().cached);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_device_that_is_newer_than_the_compiler_gets_ptx() {
        let Some(nvrtc) = find_nvrtc_for_test("a_device_that_is_newer_than_the_compiler_gets_ptx")
        else {
            return;
        };
        assert_eq!(nvrtc.target_option(90), "sm_90");
        assert!(nvrtc.target_option(999).starts_with("compute_"));
        let image =
            compile_with_cache(&ContentCache::disabled("cubin"), nvrtc, KERNEL, 999).unwrap();
        assert!(String::from_utf8_lossy(&image.bytes).contains(".entry move"), "PTX is a text");
        assert_eq!(image.bytes.last(), Some(&0));
    }

    #[test]
    fn a_text_that_does_not_compile_has_the_messages() {
        let Some(nvrtc) = find_nvrtc_for_test("a_text_that_does_not_compile_has_the_messages")
        else {
            return;
        };
        let error = compile_with_cache(&ContentCache::disabled("cubin"), nvrtc, "nonsense", 90)
            .unwrap_err();
        assert!(
            matches!(&error, DriverError::Compile { log, .. } if log.contains("move.cu(1)")),
            "{error}"
        );
        assert!(compile_with_cache(&ContentCache::disabled("cubin"), nvrtc, "a\0b", 90).is_err());
    }
}
