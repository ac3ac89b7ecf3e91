//! Texts: a printed module is read back, and a wrong text is refused with its position.

use zellige_ktir::text::{parse, print_module};

#[test]
fn every_kernel_reads_back() {
    let mut seen = 0;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let module = parse(&text)
            .unwrap_or_else(|d| panic!("{}:\n{}", path.display(), d.render(&text, false)));
        let printed = print_module(&module);
        let again = parse(&printed)
            .unwrap_or_else(|d| panic!("{}:\n{}", path.display(), d.render(&printed, false)));
        assert!(again == module, "{} changes when it is written and read", path.display());
        assert_eq!(print_module(&again), printed, "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 6, "{seen} kernels");
}
