//! Tests: one run of a test program, whose stacks say which test they are of.

use std::path::Path;

use crate::benches::{add, listed, Harness};
use crate::building::Executable;
use crate::counting::{Stack, Tare};
use crate::table::{Places, Row, Table};

const OUTSIDE: &str = "(outside of tests)";

/// A row for each test that the arguments choose, and one for what is of none: the harness, and
/// threads that tests start. A program with a main function of its own has that row alone.
pub fn measure(
    tare: &Tare,
    program: &Executable,
    arguments: &[String],
    workspace: &Path,
    table: &mut Table,
) -> Result<(), String> {
    let is_libtest = Harness::of(program)? == Harness::Libtest;
    let names = if is_libtest { listed(program, arguments)? } else { vec![] };
    if is_libtest && names.is_empty() {
        return Ok(());
    }
    table.notes.extend(tare.own_allocator(program, &["--list".to_string()]));
    eprintln!("counting {}", program.target);
    let alone = if is_libtest { vec!["--test-threads=1".to_string()] } else { vec![] };
    let (stacks, manager) = tare.count(program, &[arguments, &alone].concat(), None)?;
    table.manager = manager;
    let crate_name = program.target.replace('-', "_");
    let functions: Vec<_> = names.iter().map(|name| format!("{crate_name}::{name}::")).collect();
    let mut calls = vec![Places::new(); names.len() + 1];
    for stack in &stacks {
        add(&mut calls[test_of(stack, &functions).unwrap_or(names.len())], stack, workspace);
    }
    let row = |(name, calls): (&str, &Places)| Row::new(program.name(), name, calls);
    let names = names.iter().map(String::as_str).chain([OUTSIDE]);
    let mut rows: Vec<Row> = names.zip(&calls).map(row).collect();
    rows[..calls.len() - 1].sort_by(|a, b| b.cost.instructions.total_cmp(&a.cost.instructions));
    table.rows.extend(rows);
    Ok(())
}

/// The number of the function that a frame is of, or of a closure in it.
fn test_of(stack: &Stack, functions: &[String]) -> Option<usize> {
    stack.frames.iter().find_map(|frame| {
        let called = format!("{}::", frame.function);
        functions.iter().position(|function| called.starts_with(function))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::Frame;

    #[test]
    fn a_test_has_what_it_and_its_closures_call() {
        let functions = ["a::tests::works::", "a::tests::works_too::"].map(String::from);
        let of = |function: &str| {
            let frame = Frame { function: function.into(), ..Frame::default() };
            test_of(
                &Stack { frames: vec![Frame::default(), frame], ..Stack::default() },
                &functions,
            )
        };
        assert_eq!(of("a::tests::works_too::_$u7b$$u7b$closure$u7d$$u7d$::h1"), Some(1));
        assert_eq!(of("a::tests::works"), Some(0));
        assert_eq!(of("a::tests::workshop"), None);
    }
}
