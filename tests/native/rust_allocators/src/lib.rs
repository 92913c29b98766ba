//! Counts the words of many lines, in threads that hand them on.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::channel;
use std::thread;

#[repr(align(256))]
#[derive(Clone)]
struct Wide([u8; 256]);

#[inline(never)]
pub fn made_lines(seed: usize, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| {
            let words = 1 + (number * 7 + seed) % 12;
            (0..words)
                .map(|word| format!("word{}", (word * number + seed) % 997))
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

#[inline(never)]
pub fn counted(lines: &[String]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for line in lines {
        for word in line.split(' ') {
            *counts.entry(word.to_owned()).or_insert(0) += 1;
        }
    }
    counts
}

pub fn run() {
    let (send, receive) = channel();
    let threads: Vec<_> = (0..3)
        .map(|seed| {
            let send = send.clone();
            thread::spawn(move || {
                for round in 0..4 {
                    send.send(made_lines(seed + round, 5000))
                        .expect("the main thread receives");
                }
            })
        })
        .collect();
    drop(send);
    let mut all = BTreeMap::new();
    let mut kept = Vec::new();
    for lines in receive {
        for (word, count) in counted(&lines) {
            *all.entry(word).or_insert(0) += count;
        }
        kept.push(lines);
    }
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    let wide = vec![Wide([1; 256]); 1000];
    let zeros = vec![0u64; 100_000];
    let sum: usize = wide
        .iter()
        .map(|each| usize::from(each.0[255]))
        .sum::<usize>()
        + zeros.len();
    println!(
        "{} words, {} lines, {sum}",
        all.values().sum::<usize>(),
        kept.iter().map(Vec::len).sum::<usize>()
    );
}
