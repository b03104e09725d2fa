//! Cross-crate tests of rnic-cc; each file of `tests/tests` is one of them.
