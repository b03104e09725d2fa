//! The script that runs a sweep as a Slurm job array.

use anyhow::{Result, ensure};
use std::path::Path;

/// The script of an array with a task for each shard. `hil`, `folder` and the source tree that firmware is built from, if one is given,
/// are absolute paths, the same on all nodes.
///
/// # Errors
/// A path that the script cannot have.
pub fn script(hil: &Path, folder: &Path, tree: Option<&Path>, shards: u32, time: Option<&str>) -> Result<String> {
    for path in [hil, folder].into_iter().chain(tree) {
        ensure!(
            path.to_str().is_some_and(|path| !path.contains(['\n', '\'', '"', '%', '\\'])),
            "{}: a job script cannot have this path: expected one without quotes, %, backslashes and line ends",
            path.display()
        );
    }
    let (hil, folder) = (hil.display(), folder.display());
    let tree = tree.map_or(String::new(), |tree| format!(" --tree '{}'", tree.display()));
    let time = time.map_or(String::new(), |time| format!("#SBATCH --time={time}\n"));
    Ok(format!(
        "#!/bin/sh\n\
         # Submit with: sbatch SCRIPT. Afterwards: hil sweep merge '{folder}'\n\
         # A task that is killed or requeued goes on where it was. More cores for a task: sbatch --cpus-per-task=N SCRIPT.\n\
         #SBATCH --job-name=hil-sweep\n\
         #SBATCH --array=1-{shards}\n\
         #SBATCH --requeue\n\
         #SBATCH --open-mode=append\n\
         #SBATCH --output=\"{folder}/slurm-%A_%a.log\"\n\
         {time}exec '{hil}'{tree} sweep run '{folder}' --shard \"$SLURM_ARRAY_TASK_ID/{shards}\" --jobs \"${{SLURM_CPUS_PER_TASK:-1}}\"\n"
    ))
}
