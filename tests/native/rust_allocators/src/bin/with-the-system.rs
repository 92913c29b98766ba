fn main() {
    rust_allocators::run();
}
