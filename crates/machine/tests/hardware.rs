//! Presets: complete, exact, and refused with the line and what is accepted.

use zellige_machine::MachineError;
use zellige_machine::{CycleModel, Hardware, Key, LaunchUnit, Ratio};

#[test]
fn the_card_is_what_is_published_and_says_what_is_assumed() {
    let card = Hardware::built_in_preset("card-2026-05").unwrap();
    assert_eq!((card.core_count(), card.cycle_model()), (32, CycleModel::Card));
    assert_eq!(card.peak_tflops(), 98.304);
    assert_eq!(card.figure_number(Key::MemoryPeak), Ratio::new(1024, 5));
    assert_eq!(card.figure_count(Key::Span), 256 << 20);
    assert_eq!(card.figure_count(Key::LxSize), 2 << 20);
    let segments = card.address_segments();
    assert_eq!((segments.len(), segments[7].base), (8, 0x1C_0000_0000));
    let assumed: Vec<&str> = Key::all_keys()
        .filter(|k| card.find_figure(*k).is_some_and(|f| f.source().starts_with("assumption")))
        .map(Key::preset_path)
        .collect();
    assert_eq!(
        assumed,
        [
            "sfu.lanes",
            "sfu.transcendental",
            "memory.bursts",
            "lx.bandwidth",
            "host.link",
            "link.bandwidth",
            "link.latency"
        ]
    );
}

#[test]
fn the_unit_of_a_launch_says_what_is_launched_at_once() {
    let of = |name: &str| Hardware::built_in_preset(name).unwrap();
    for (name, unit, us) in
        [("card-2026-05", LaunchUnit::Wave, 265.0), ("card-2026-09", LaunchUnit::Bundle, 360.0)]
    {
        let card = of(name);
        assert_eq!((card.launch_unit(), card.launch_time().microseconds()), (unit, us), "{name}");
        // Another rate is no other unit.
        let faster = card.clone().with_rate(Key::Launch, "10", "what if").unwrap();
        assert_eq!((faster.launch_unit(), faster.launch_time().microseconds()), (unit, 10.0));
        let step = if unit == LaunchUnit::Wave { us } else { 0.0 };
        assert_eq!(card.step_launch_time().microseconds(), step);
        assert_eq!(card.step_launch_cycles(), if unit == LaunchUnit::Wave { 397_500 } else { 0 });
    }
    assert_eq!((of("ktir").launch_unit(), of("ktir").step_launch_cycles()), (LaunchUnit::Wave, 0));
    // The default is the newest stack, but for its name.
    let (card, newest) = (of("card"), of("card-2026-09"));
    for key in Key::all_keys() {
        assert_eq!(card.find_figure(key), newest.find_figure(key), "{}", key.preset_path());
    }
    let old =
        "name = 'x'\nextends = 'card'\n[host]\nlaunch = { value = 1, unit = 'us', source = 's' }";
    let error = Hardware::from_toml(old).unwrap_err().to_string();
    assert!(error.contains("us/wave") && error.contains("us/bundle"), "{error}");
}

#[test]
fn every_number_is_listed_with_unit_and_source() {
    for name in Hardware::preset_names() {
        let hardware = Hardware::built_in_preset(name).unwrap();
        let table = hardware.to_string();
        for key in Key::all_keys() {
            let Some(figure) = hardware.find_figure(key) else { continue };
            let line =
                table.lines().find(|l| l.split_whitespace().next() == Some(key.preset_path()));
            let line = line.unwrap_or_else(|| panic!("{} is not listed", key.preset_path()));
            for part in [figure.written_text(), figure.unit(), figure.source()] {
                assert!(!part.is_empty() && line.contains(part), "{line}: {part}");
            }
        }
    }
    let card = Hardware::card_preset().to_string();
    assert!(card.contains("memory.peak"), "{card}");
}

#[test]
fn a_preset_of_ones_own_overrides_what_it_says() {
    let own = Hardware::from_toml(
        "name = 'fast'\nextends = 'card'\n[memory]\n\
         peak = { value = 1.2, unit = 'TB/s', source = 'HBM, if it had any' }\n",
    )
    .unwrap();
    assert_eq!(own.figure_number(Key::MemoryPeak), Ratio::new(1200, 1));
    assert_eq!(own.find_figure(Key::MemoryPeak).unwrap().unit(), "TB/s");
    assert_eq!(own.figure_number(Key::Clock), Hardware::card_preset().figure_number(Key::Clock));
    assert_eq!(own.description(), "as `card`, except what it says itself");
}

#[test]
fn a_rate_of_ones_own_is_a_positive_number() {
    let with = |key, text| Hardware::card_preset().with_rate(key, text, "what if");
    let own = with(Key::LinkBandwidth, "25.6").unwrap();
    assert_eq!(own.figure_number(Key::LinkBandwidth), Ratio::new(128, 5));
    assert!(own.to_string().contains("25.6 GB/s"), "{own}");
    for text in ["", "0", "-1", "1e3", "x", "2000000000"] {
        assert_eq!(with(Key::LinkBandwidth, text), None, "{text}");
    }
    assert_eq!(with(Key::Cores, "3"), None, "a count is no rate");
}

#[test]
fn mistakes_are_refused_with_line_key_and_what_is_accepted() {
    let figure = |section: &str, entry: &str| {
        format!("name = 'x'\nextends = 'card'\n[{section}]\n{entry}\n")
    };
    let cases: &[(String, usize, &str, &str)] = &[
        ("name = ".into(), 1, "", "not TOML"),
        (String::new(), 1, "name", "a preset has a name"),
        ("name = 3".into(), 1, "name", "a text in quotes is accepted, not integer"),
        ("name = 'x'".into(), 1, "model", "extends = \"card\""),
        (
            "name = 'x'\nextends = 'gpu'".into(),
            2,
            "extends",
            "built in are card, card-2026-05, card-2026-09, ktir",
        ),
        ("name = 'x'\nmodel = 'gpu'".into(), 2, "model", "accepted are `card` and `ktir`"),
        ("name = 'x'\nmodel = 'ktir'\nextends = 'card'".into(), 2, "model", "leave it out"),
        ("name = 'x'\nmodel = 'ktir'\n".into(), 3, "cores.count", "missing"),
        (
            figure("product", "rate = { value = 1, unit = 'MAC/ns/core', source = 's' }")
                .replace("'card'", "'card-2026-05'"),
            5,
            "product.split_depth",
            "all figures of this section or none",
        ),
        (figure("core", ""), 3, "core", "accepted are name, about, model, extends, cores, pt"),
        (figure("cores", "size = 3"), 4, "cores.size", "unknown; accepted: cores.count"),
        (
            "name = 'x'\nextends = 'ktir'\n[lx]\nbandwidth = 3".into(),
            4,
            "lx.bandwidth",
            "model `ktir` does not use it; accepted: lx.size",
        ),
        (figure("cores", "count = 16"), 4, "cores.count", "{ value = 1, unit = \"cores\""),
        (figure("cores", "count = { value = 16 }"), 4, "cores.count", "has no `unit`"),
        (
            figure("cores", "count = { value = 16, unit = 'cores' }"),
            4,
            "cores.count",
            "has no `source`",
        ),
        (
            figure("cores", "count = { value = 16, unit = 'core', source = 's' }"),
            4,
            "cores.count",
            "unit \"core\"; accepted: \"cores\"",
        ),
        (
            figure("cores", "count = { value = 16, unit = 'cores', source = 's', why = 1 }"),
            4,
            "cores.count",
            "unknown field `why`",
        ),
        (
            figure("cores", "\ncount = { value = 0, unit = 'cores', source = 's' }"),
            5,
            "cores.count",
            "positive",
        ),
        (
            figure("cores", "count = { value = 2.5, unit = 'cores', source = 's' }"),
            4,
            "cores.count",
            "a whole number from 1 to 1024",
        ),
        (
            figure("cores", "clock = { value = -1.5, unit = 'GHz', source = 's' }"),
            4,
            "cores.clock",
            "positive",
        ),
        (
            figure("cores", "clock = { value = inf, unit = 'GHz', source = 's' }"),
            4,
            "cores.clock",
            "positive",
        ),
        (
            figure("lx", "size = { value = 1000, unit = 'B/core', source = 's' }"),
            4,
            "lx.size",
            "a multiple of 128",
        ),
        (
            figure("memory", "bursts = { by = 'B', unit = 'of peak', points = [], source = 's' }"),
            4,
            "memory.bursts",
            "growing x",
        ),
        (
            figure(
                "memory",
                "bursts = { by = 'B', unit = 'of peak', points = [[8, 1], [8, 1]], source = 's' }",
            ),
            4,
            "memory.bursts",
            "growing x",
        ),
        (
            figure(
                "memory",
                "bursts = { by = 'B', unit = 'of peak', points = [[8, 1.5]], source = 's' }",
            ),
            4,
            "memory.bursts",
            "up to 1",
        ),
    ];
    for (text, line, key, reason) in cases {
        match Hardware::from_toml(text) {
            Err(MachineError::Preset { line: l, key: k, reason: r }) => {
                assert_eq!((l, k.as_str()), (*line, *key), "{text}: {r}");
                assert!(r.contains(reason), "{text}: {r}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    assert_eq!(
        Hardware::built_in_preset("gpu").unwrap_err().to_string(),
        "no hardware preset is called `gpu`; built in are card, card-2026-05, card-2026-09, ktir"
    );
}
