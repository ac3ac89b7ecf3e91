//! x
/// x
pub fn render(_: &crate::Scene, _: usize, _: bool) -> String {
    String::new()
}
