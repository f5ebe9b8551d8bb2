//! Links the loader at its fixed physical address when it is built for the machine; host builds need nothing.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rerun-if-changed=loader.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo::rustc-link-arg-bins=-T{folder}/loader.ld");
        for argument in ["--no-pie", "-zmax-page-size=4096", "-znorelro", "--gc-sections", "--build-id=none"] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}
