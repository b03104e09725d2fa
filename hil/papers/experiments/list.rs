// The experiments in the order in which they are listed and run.
embedded! {
    "hp-1"
}
