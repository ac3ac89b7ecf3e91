//! How the program ends.

/// The exit code of the program, which the Python package hands on as a number.
///
/// The type of the standard library does not show its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitCode(u8);

impl ExitCode {
    /// Nothing went wrong.
    pub const SUCCESS: ExitCode = ExitCode(0);

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }
}

impl From<u8> for ExitCode {
    fn from(number: u8) -> ExitCode {
        ExitCode(number)
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> std::process::ExitCode {
        std::process::ExitCode::from(code.0)
    }
}
