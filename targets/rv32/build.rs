//! Links the image with the script beside this file, if it is built for bare metal.
fn main() {
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo:rerun-if-changed=link.x");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo:rustc-link-arg-bins=-T{root}/link.x");
        // defmt's script, for the section with the texts of log lines, which is not loaded.
        if std::env::var_os("CARGO_FEATURE_LOG").is_some() {
            println!("cargo:rustc-link-arg-bins=-Tdefmt.x");
        }
    }
}
