//! What figures depend on beside the case: the machine, its instruction set, the build.

use zellige_float::Isa;

/// One line to stand above every table.
pub fn describe_conditions() -> String {
    format!(
        "{}, {} cores for this process; instruction set {}; zellige {}.",
        processor_name()
            .unwrap_or_else(|| format!("An unnamed {} processor", std::env::consts::ARCH)),
        zellige_host::available_cores(),
        Isa::process_isa(),
        env!("CARGO_PKG_VERSION"),
    )
}

/// What the system calls the processor; virtual machines often hide all but the maker, so the numbers that
/// say which one it is follow.
pub fn processor_name() -> Option<String> {
    parse_processor_name(&std::fs::read_to_string("/proc/cpuinfo").ok()?)
}

fn parse_processor_name(text: &str) -> Option<String> {
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|l| l.split_once(':'));
        lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    };
    let name = field("model name")?;
    Some(match (field("cpu family"), field("model")) {
        (Some(family), Some(model)) => format!("{name} (family {family}, model {model})"),
        _ => name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_named_with_its_instruction_set() {
        let text = "processor\t: 0\nvendor_id\t: A\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: A CPU\n";
        assert_eq!(parse_processor_name(text).as_deref(), Some("A CPU (family 25, model 17)"));
        assert_eq!(parse_processor_name("model name : B").as_deref(), Some("B"));
        assert_eq!(parse_processor_name("Features: fp"), None);
        assert!(describe_conditions().contains(Isa::process_isa().name()));
    }
}
