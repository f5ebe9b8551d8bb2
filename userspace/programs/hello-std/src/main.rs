//! The smallest program on `std`: it greets the names in its arguments.
#![forbid(unsafe_code)]

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    println!("Hello, {}, from std on capOS.", if names.is_empty() { "world".to_owned() } else { names.join(" and ") });
}
