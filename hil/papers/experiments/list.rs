// The experiments in the order in which they are listed and run.
embedded! {
    "hp-1"
    "sw-1"
    "ti-1"
    "tc-1"
    "sg-1"
    "ls-1"
    "ls-2"
    "ls-3"
    "ls-4"
    "ls-9"
    "ls-10"
    "hs-1"
    "hs-2"
}
