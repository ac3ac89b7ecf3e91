//! The recorded scratchpad plans of torch-spyre.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use zellige_compile::solve::memory::{
    LX_RESERVED, LiveBuffer, MemoryPlan, MemoryRequest, PlacementPolicy, check_memory_plan,
    lx_limit, plan_memory, plan_pool,
};
use zellige_compile::{CompileError, RefusalWitness};
use zellige_machine::Hardware;

fn vectors() -> (Value, Vec<Value>) {
    let path = format!("{}/../../tests/data/lx_solver.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut data: Value = serde_json::from_str(&text).expect("JSON");
    let list = data["vectors"].as_array().expect("a list").clone();
    (data["meta"].take(), list)
}

fn request(v: &Value) -> Result<MemoryRequest, CompileError> {
    let buffer = |b: &Value| LiveBuffer {
        name: b["name"].as_str().unwrap().into(),
        size: b["size"].as_u64().unwrap(),
        uses: b["uses"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect(),
        in_place_parents: b["in_place_parents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| p.as_str().unwrap().into())
            .collect(),
        first_use_is_read: b["first_use_is_read"].as_bool().unwrap(),
    };
    let buffers = v["buffers"].as_array().unwrap().iter().map(buffer).collect();
    MemoryRequest::new(v["limit"].as_u64().unwrap(), v["alignment"].as_u64().unwrap(), buffers)
}

fn checked(request: &MemoryRequest, policy: PlacementPolicy) -> MemoryPlan {
    let plan = plan_memory(request, policy);
    check_memory_plan(request, &plan)
        .unwrap_or_else(|e| panic!("{policy:?}: {e}\n{request:?}\n{plan:?}"));
    plan
}

#[test]
fn recorded_plans() {
    let (_, list) = vectors();
    let mut seen = 0;
    for v in list {
        let id = &v["id"];
        let request = match (request(&v), v["expected_addresses"].as_str()) {
            (Err(error), Some(text)) => {
                let text = text.strip_prefix("error: ").unwrap();
                assert!(error.to_string().contains(text), "{id}: {error}");
                assert_eq!(error.witness(), Some(RefusalWitness::Buffer("C".into())), "{id}");
                seen += 1;
                continue;
            }
            (request, _) => request.unwrap_or_else(|e| panic!("{id}: {e}")),
        };
        let mut spilled = 0;
        for solver in v["solvers"].as_array().unwrap() {
            let policy = PlacementPolicy::from_name(solver.as_str().unwrap()).unwrap();
            let plan = checked(&request, policy);
            for (i, b) in request.buffers().iter().enumerate() {
                let want = match &v["expected_addresses"] {
                    Value::Array(list) => &list[i],
                    Value::Object(some) => match some.get(&b.name) {
                        Some(address) => address,
                        None => continue,
                    },
                    other => panic!("{id}: {other}"),
                };
                assert_eq!(plan.addresses[i], want.as_u64(), "{id} {solver} {}", b.name);
            }
            spilled = plan.spilled_bytes(&request);
        }
        let exact = checked(&request, PlacementPolicy::Exact);
        assert!(exact.spilled_bytes(&request) <= spilled, "{id}");
        assert!(exact.is_optimal(&request), "{id}");
        seen += 1;
    }
    assert_eq!(seen, 14);
}

#[test]
fn the_scratchpad_of_the_card() {
    let (meta, _) = vectors();
    assert_eq!(
        lx_limit(&Hardware::card_preset(), LX_RESERVED),
        meta["real_limit_bytes"].as_u64().unwrap()
    );
}

#[test]
fn bad_requests() {
    let b = |name: &str, size, uses: &[u64]| LiveBuffer::new(name, size, uses);
    for (buffers, kind, witness) in [
        (vec![b("a", 1, &[])], "bad_buffer", "a"),
        (vec![b("a", 1, &[3, 1])], "bad_buffer", "a"),
        (vec![b("a", 1, &[1]), b("a", 1, &[2])], "bad_buffer", "a"),
        (vec![b("a", 1, &[u64::MAX])], "bad_buffer", "a"),
        (vec![b("a", 1, &[1]).written_over(&["b"])], "bad_in_place_parent", "a"),
        (vec![b("a", 1, &[1]).written_over(&["a"])], "bad_in_place_parent", "a"),
        (
            vec![b("p", 1, &[1, 5]), b("c", 1, &[4, 9]).written_over(&["p"])],
            "bad_in_place_parent",
            "c",
        ),
        (
            vec![b("p", 1, &[1, 2]), b("c", 1, &[4, 9]).written_over(&["p"])],
            "bad_in_place_parent",
            "c",
        ),
        (
            vec![b("p", 1, &[3]).written_over(&["c"]), b("c", 1, &[3]).written_over(&["p"])],
            "bad_in_place_parent",
            "p",
        ),
    ] {
        let error = MemoryRequest::new(100, 1, buffers).unwrap_err();
        assert_eq!(
            (error.kind(), error.witness()),
            (kind, Some(RefusalWitness::Buffer(witness.into())))
        );
    }
    let huge = vec![b("a", u64::MAX, &[1])];
    assert_eq!(MemoryRequest::new(100, 1, huge).unwrap_err().kind(), "overflow");
    assert_eq!(MemoryRequest::new(100, 0, vec![]).unwrap_err().kind(), "bad_alignment");
    // Nothing to place, and buffers without bytes, are no mistakes.
    let request = MemoryRequest::new(0, 128, vec![b("e", 0, &[1]), b("x", 1, &[1])]).unwrap();
    for policy in PlacementPolicy::ALL {
        assert_eq!(checked(&request, policy).addresses, [Some(0), None], "{policy:?}");
    }
    assert_eq!(
        checked(&MemoryRequest::new(0, 1, vec![]).unwrap(), PlacementPolicy::Exact).addresses,
        []
    );
}

/// Law: what is read at its only use was there before that operation, so a child that begins there may
/// be placed over it, in whichever order the two are named; what is written there was not.
#[test]
fn a_parent_that_was_there_before() {
    let read = LiveBuffer { first_use_is_read: true, ..LiveBuffer::new("p", 10, &[4]) };
    let child = || LiveBuffer::new("c", 10, &[4, 8]).written_over(&["p"]);
    for buffers in [vec![read.clone(), child()], vec![child(), read.clone()]] {
        let request = MemoryRequest::new(10, 1, buffers).unwrap();
        for policy in PlacementPolicy::ALL {
            assert_eq!(checked(&request, policy).addresses, [Some(0), Some(0)], "{policy:?}");
        }
    }
    // Without room for anything beside it, a third buffer is what is spilled.
    let third = LiveBuffer::new("x", 10, &[4]);
    let request = MemoryRequest::new(10, 1, vec![third, child(), read]).unwrap();
    assert_eq!(checked(&request, PlacementPolicy::Exact).addresses, [None, Some(0), Some(0)]);
    let written = vec![LiveBuffer::new("p", 10, &[4]), child()];
    assert_eq!(MemoryRequest::new(10, 1, written).unwrap_err().kind(), "bad_in_place_parent");
}

#[test]
fn names_of_policies() {
    for policy in PlacementPolicy::ALL {
        assert_eq!(PlacementPolicy::from_name(policy.name()), Some(policy));
    }
    assert_eq!(PlacementPolicy::from_name("first-fit"), Some(PlacementPolicy::FirstFit));
    assert_eq!(PlacementPolicy::from_name("baseline"), Some(PlacementPolicy::FirstFit));
    assert_eq!(PlacementPolicy::from_name("best"), Some(PlacementPolicy::Exact));
    assert_eq!(PlacementPolicy::from_name("worst"), None);
}

#[test]
fn the_pool_of_device_memory() {
    let card = Hardware::card_preset();
    let gib = |n: u64| n << 30;
    let b = |name: &str, size, uses: &[u64]| LiveBuffer::new(name, size, uses);
    let chain = vec![b("a", gib(9), &[0, 1]), b("b", gib(7), &[1, 2]), b("c", gib(9), &[2, 3])];
    let (request, found) = plan_pool(chain, &card).unwrap();
    check_memory_plan(&request, &found).unwrap();
    assert_eq!(found.addresses, [Some(0), Some(gib(9)), Some(0)]);
    let error = plan_pool(vec![b("a", gib(9), &[0, 1]), b("b", gib(8), &[1])], &card).unwrap_err();
    assert_eq!(error.kind(), "pool_full");
    assert!(error.to_string().contains(&gib(17).to_string()), "{error}");
}
