//! Links the images with the script of their target's board, and the script of the sections that all boards have.
fn main() {
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let (board, small) = match std::env::var("TARGET").as_deref() {
        Ok("thumbv6m-none-eabi") => ("microbit.x", true),
        Ok("thumbv7m-none-eabi" | "thumbv7em-none-eabi") => ("mps2.x", false),
        Ok("riscv64imac-unknown-none-elf") => ("virt.x", false),
        _ => return,
    };
    println!("cargo:rustc-check-cfg=cfg(small)");
    if small {
        println!("cargo:rustc-cfg=small");
    }
    for script in [board, "sections.x"] {
        println!("cargo:rerun-if-changed={script}");
        println!("cargo:rustc-link-arg-bins=-T{root}/{script}");
    }
}
