//! The files of htsim (Broadcom/csg-htsim, ultraethernet/uet-htsim): topologies (`.topo`) and connection matrices (`.cm`).

pub(crate) mod connections;
pub(crate) mod topology;
