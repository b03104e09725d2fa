// The experiments in the order in which they are listed and run.
embedded! {
    "hp-1"
    "sw-1"
    "ti-1"
    "tc-1"
    "sg-1"
}
