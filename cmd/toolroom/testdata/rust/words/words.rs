// Counts the words of a text, as a tool: toolroom tool push FOLDER.
//
// Arguments are in the environment, one variable each, and as one JSON object on stdin.
// What the program prints is its value; another exit code than 0 is a failed call.
//
// Built by: rustc --target wasm32-wasip1 -C opt-level=s -C lto -C panic=abort -C strip=symbols words.rs
// (Rust older than 1.78 names the target wasm32-wasi.)
use std::collections::BTreeMap;
use std::env;
use std::process::exit;

fn main() {
    let text = env::var("ARG_TEXT").unwrap_or_default();
    let least: usize = env::var("ARG_LEAST").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    if text.trim().is_empty() {
        eprintln!("the text has no words");
        exit(2);
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()) {
        *counts.entry(word.to_lowercase()).or_insert(0) += 1;
    }
    let members: Vec<String> = counts
        .iter()
        .filter(|(_, n)| **n >= least)
        .map(|(word, n)| format!("\"{}\":{}", word, n)) // letters and digits need no escapes
        .collect();
    println!("{{{}}}", members.join(","));
}
