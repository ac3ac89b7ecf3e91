//! Hostile requests: whatever the line, one line of JSON comes back, soon, and nothing panics.
//!
//! A seeded, structure-aware mutational fuzzer. Seeds are one valid request per operation;
//! mutations change numbers, fields, types, texts and bytes, and a generator writes layouts whose
//! shapes fit, so that requests reach the algebra and not only the parser. `ZELLIGE_FUZZ_SECONDS`
//! sets how long it runs (8 where it is not given), `ZELLIGE_FUZZ_SEED` where it starts.

mod generate;
mod judge;
mod mutate;
mod rng;
mod seeds;

use generate::generate;
use judge::{check, complaint, round_trips, seed_texts, shown, strings, watch};
use mutate::{mutate, mutate_text};
use peak_alloc::PeakAlloc;
use rng::Rng;
use seeds::SEEDS;
use serde_json::json;
use std::time::{Duration, Instant};
use zellige_ask::{OPERATIONS, answer_line};
use zellige_layout::AxisTable;
use zellige_notation::Notation;

/// The system allocator, counting what is in use.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

#[test]
fn every_operation_has_a_seed_that_is_answered() {
    for operation in OPERATIONS {
        let tag = format!("\"op\":\"{}\"", operation.name);
        assert!(SEEDS.iter().any(|s| s.contains(&tag)), "no seed for {}", operation.name);
    }
    for seed in SEEDS {
        assert!(answer_line(seed).contains("\"ok\":"), "{seed}\n{}", answer_line(seed));
    }
}

/// Lines that once ate memory, never ended, or were answered wrongly.
#[test]
fn known_hostile_lines_stay_answered() {
    let quoted =
        format!(r#"{{"op":"canonicalize","layout":"S[2:1]","target":"{}"}}"#, "é".repeat(9999));
    let lines = [
        // Billions of devices, whose iota in HLO is short and was listed to be read back.
        r#"{"op":"conversions","layout":"S[(3,2,3,3,2,2,2,3,2,2,3,2,2,2,2,2,2,2,2,2,3,2,2,2,3,2,3,3,2,2,2,2,3,2,2):(1@pid,3@pid,6@pid,18@pid,54@pid,108@pid,216@pid,432@pid,1296@pid,2592@pid,5184@pid,15552@pid,31104@pid,62208@pid,124416@pid,248832@pid,497664@pid,995328@pid,1990656@pid,3981312@pid,7962624@pid,23887872@pid,47775744@pid,95551488@pid,191102976@pid,573308928@pid,1146617856@pid,3439853568@pid,10319560704@pid,20639121408@pid,41278242816@pid,82556485632@pid,165112971264@pid,495338913792@pid,990677827584@pid)]","shape":[3,2,3,3,2,2,2,3,2,2,3,2,2,2,2,2,2,2,2,2,3,2,2,2,3,2,3,3,2,2,2,2,3,2,2],"dtype":"float16"}"#,
        // Two elements share a place, and each has more replicas than can be listed.
        r#"{"op":"explain","layout":"S[(2147483648,10,3):(32@pid,4,21474836480@TCol)] + R[(4503599627370497):(1@pid)]","shape":[64424509440],"dtype":"float16"}"#,
        r#"{"op":"facts","layout":"S[2:0] + R[1099511627776:1]"}"#,
        r#"{"op":"equal","a":"S[2:1] + R[1099511627776:1]","b":"S[2:2] + R[1099511627776:1]"}"#,
        r#"{"op":"equal","a":"Swizzle(0,1,1) o S[4194304:1] + R[65536:8388608]","b":"S[4194304:1] + R[65536:8388608]"}"#,
        // Many ways to one address under a swizzle.
        r#"{"op":"parse","layout":"Swizzle(2,4,21) o S[(32768,8796093022208,9):(7,128,9)]"}"#,
        r#"{"op":"swizzle_for","layout":"S[(1,13):(1,0)] + R[(65536):(549755813888)]","shape":[1,13],"dtype":"float16","accesses":[{"kind":"row","index":0}]}"#,
        r#"{"op":"swizzle_for","layout":"S[(1024,1024):(1024,1)]","dtype":"float16","accesses":[{"kind":"column","index":0,"vector":8}]}"#,
        r#"{"op":"swizzle_for","layout":"S[(262144,1):(1,1)]","dtype":"float16","accesses":[{"kind":"column"},{"kind":"column"}]}"#,
        // Lanes and vectors without end.
        r#"{"op":"conflicts","layout":"S[(256,8192):(11,3)]","shape":[1048576,2],"dtype":"float16","access":{"kind":"column","index":0},"vector":1}"#,
        r#"{"op":"conflicts","layout":"S[(2,1099511627776):(1099511627776,1)]","dtype":"int8","access":{"kind":"row"},"vector":1099511627776}"#,
        r#"{"op":"analyze","layout":"S[(1024,1024):(1024,1)] + R[65536:0]","dtype":"int8","access":{"kind":"column"}}"#,
        // Four million places, looked at one by one.
        r#"{"op":"explain","layout":"Swizzle(6,1,2) o S[(65536,4,11):(1,-536870912@warpid,262144)] + 5@laneid","dtype":"float16"}"#,
        r#"{"op":"explain","layout":"S[(2048,13,12,524288):(262144@TCol,4398046511104,26624,0@pid)] + R[(127,16):(1@pid,-1@pid)] valid[15..17/2048,7..13/13,7..12/12,1024..1040/524288]","dtype":"float16"}"#,
        r#"{"op":"facts","layout":"Swizzle(1,2,14) o S[(6):(12)] + R[(1048576):(9)] + 134217728@laneid valid[2..6/6]"}"#,
        r#"{"op":"parse","layout":"Swizzle(0,2,31,outer) o S[(128,10,13,2097152):(1@laneid,68719476736@warpid,1280,6)] + 2048"}"#,
        // An id that is no integer.
        r#"{"id":18446744073709551616e+26,"op":"ze"}"#,
        &quoted,
    ];
    for line in lines {
        assert_eq!(complaint(line), None, "{}", shown(line));
    }
}

/// Every order of many small digits has a text, or a refusal, in every notation, soon.
#[test]
fn scattered_digits_are_converted_or_refused_in_time() {
    for digits in [12usize, 24, 40, 61] {
        let strides: Vec<String> = (0..digits).map(|k| (1i64 << k).to_string()).collect();
        let layout = format!("S[({}):({})]", vec!["2"; digits].join(","), strides.join(","));
        let half = digits / 2;
        for shape in [vec![1i64 << digits], vec![1 << half, 1 << (digits - half)], vec![2; digits]]
        {
            for to in Notation::all_notations() {
                let line = json!({"op": "convert", "layout": layout, "shape": shape, "to": to.name(), "dtype": "float16"});
                let line = line.to_string();
                assert_eq!(complaint(&line), None, "{}", shown(&line));
                if digits < 40 {
                    let reply = answer_line(&line);
                    assert!(reply.len() < 1 << 14, "{} bytes: {}", reply.len(), shown(&line));
                }
            }
        }
    }
}

/// Texts of a million characters are read, or refused, in time that grows with their length.
#[test]
fn long_texts_are_answered_in_time() {
    let n = 200_000;
    let list = |item: &str| vec![item; n].join(",");
    let texts = [
        format!("S[({}):({})]", list("1"), list("1")),
        format!("S[2:1] + R[({}):({})]", list("1"), list("3@laneid")),
        format!("S[2:1]{}", " + 1@laneid - 2".repeat(n)),
        format!("S[2:1] valid[{},1/2]", list("1")),
        format!("S[{}]", ",".repeat(5 * n)),
        format!("S[{}", "(".repeat(5 * n)),
        format!("S[2:1@{}]", "z".repeat(5 * n)),
        format!("S[1{}]", "0".repeat(5 * n)),
        format!("size=[{}] stride=[{}]", list("1"), list("1")),
        format!(
            "SpyreTensorLayout(device_size=[{},64], stride_map =[{},1], \
             device_dtype=DataFormats.SEN169_FP16, host_size=[{},64])",
            list("1"),
            list("-1"),
            list("1")
        ),
    ];
    for text in texts {
        for op in
            ["parse", "canonicalize", "facts", "explain", "inverse", "storage", "physical_order"]
        {
            let line = json!({"op": op, "layout": text}).to_string();
            assert_eq!(complaint(&line), None, "{op} {}", shown(&text));
        }
    }
}

#[test]
fn hostile_lines_are_answered() {
    let env = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let budget = Duration::from_secs(env("ZELLIGE_FUZZ_SECONDS").unwrap_or(8));
    let mut rng = Rng(env("ZELLIGE_FUZZ_SEED").unwrap_or(0x5EED_1E57).max(1));
    let texts = seed_texts();
    let axes = AxisTable::new();
    let began = Instant::now();
    watch(began);
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        eprintln!("panic at {place}: {}", info.payload_as_str().unwrap_or(""));
    }));
    let (mut cases, mut ok, mut failures) = (0u64, 0u64, Vec::new());
    while began.elapsed() < budget && failures.len() < 20 {
        let mut request = if rng.one_in(2) {
            generate(&mut rng)
        } else {
            serde_json::from_str(rng.pick(SEEDS)).expect("seeds are JSON")
        };
        for _ in 0..rng.below(4) {
            mutate(&mut request, &mut rng, &texts);
        }
        let mut line = request.to_string();
        if rng.one_in(10) {
            line = mutate_text(&line, &mut rng, &texts);
        }
        cases += 1;
        if let Some(what) = check(&line, began) {
            failures.push(format!("{what}: {}", shown(&line)));
            continue;
        }
        let mut found = Vec::new();
        strings(&request, &mut found);
        for text in found {
            if let Some(what) = round_trips(&text, &axes) {
                failures.push(format!("{} {what}", shown(&text)));
            }
            ok += 1;
        }
    }
    let _ = std::panic::take_hook();
    eprintln!("{cases} requests, {ok} texts, {:?}", began.elapsed());
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
