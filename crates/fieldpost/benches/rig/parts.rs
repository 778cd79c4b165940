//! How a benchmark begins and ends: which of its parts are asked for, how much they measure, and
//! the report of them.

use std::env;
use std::str::FromStr;

use tokio::runtime::Builder;

use super::report::Report;
use super::{Failure, machine};

/// The parts that the command line names.
pub(crate) struct Parts(Vec<String>);

impl Parts {
    /// Whether it is named, or none is.
    pub(crate) fn has(&self, part: &str) -> bool {
        self.0.is_empty() || self.names(part)
    }

    /// Whether it is named.
    pub(crate) fn names(&self, part: &str) -> bool {
        self.0.iter().any(|named| named == part)
    }
}

/// Measures what is asked for of these parts, on such a runtime, and writes the report.
pub(crate) fn run(
    mut runtime: Builder,
    parts: &[&str],
    measure: impl AsyncFnOnce(&Parts, &mut Report) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // `cargo test --benches` runs this too, and only wants to know that it starts.
    if arguments.iter().any(|argument| argument == "--test") {
        return Ok(());
    }
    let named: Vec<String> = arguments.into_iter().filter(|word| !word.starts_with('-')).collect();
    if let Some(unknown) = named.iter().find(|name| !parts.contains(&name.as_str())) {
        return Err(format!("no part is called {unknown}; there are {}", parts.join(", ")).into());
    }
    runtime.enable_all().build()?.block_on(async {
        let mut report = Report::open()?;
        machine::describe(&mut report)?;
        measure(&Parts(named), &mut report).await?;
        report.finish()
    })
}

/// Two threads, for those who measure and for those whom they measure beside.
pub(crate) fn two_threads() -> Builder {
    let mut runtime = Builder::new_multi_thread();
    runtime.worker_threads(2);
    runtime
}

/// How much is measured, from the environment.
pub(crate) fn size<N: FromStr>(variable: &str, usual: N) -> Result<N, Failure> {
    match env::var(variable) {
        Ok(text) => text.parse().map_err(|_| format!("{variable} is a number, not {text:?}").into()),
        Err(_) => Ok(usual),
    }
}
