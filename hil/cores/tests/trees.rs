//! Images and their source trees: an image of one tree is not used for another tree.

use hil_cores::core::Dialect;
use hil_cores::firmware::{self, Kind};
use hil_cores::tree::{self, Tree};
use object::{Object, ObjectSection};
use std::fs;
use std::path::Path;

/// Copies the source files of a workspace, without build outputs, records and data.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (name, path) = (entry.file_name(), entry.path());
        let left_out = ["target", "data", "golden", "corpus", "recorded"].iter().any(|left_out| name == *left_out);
        if path.is_dir() && !left_out && !name.to_string_lossy().starts_with('.') {
            copy(&path, &to.join(name));
        } else if path.is_file() {
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// The hash of the sources that an image contains.
fn sources(image: &Path) -> String {
    let file = fs::read(image).unwrap();
    let elf = object::File::parse(&*file).unwrap();
    let section = elf.section_by_name(programs::SOURCES_SECTION).unwrap();
    String::from_utf8(section.data().unwrap().to_vec()).unwrap()
}

/// The files of both copies are older than anything built from them. Cargo identifies a workspace's packages by name and file
/// times, so in a shared output folder it would not build the second tree after the first.
#[test]
fn trees_that_share_a_target_folder_get_their_own_images() {
    let folder = tempfile::tempdir().unwrap();
    let here = tree::here().unwrap();
    let [one, other] = ["one", "other"].map(|name| {
        let root = folder.path().join(name);
        copy(here.root(), &root);
        root
    });
    let source = other.join("cc-rp/src/pfc.rs");
    let text = fs::read_to_string(&source).unwrap() + "\n// Another tree.\n";
    fs::write(&source, text).unwrap();
    let [(one, image), (other, other_image)] = [one, other].map(|root| {
        let tree = Tree::at(&root).unwrap().with_target(folder.path().join("target"));
        let image = firmware::compile(&tree, "pfc", Kind::Inlining, Dialect::Machine).unwrap().path;
        (tree, image)
    });
    assert_eq!(sources(&image), one.sources().unwrap());
    assert_eq!(sources(&other_image), other.sources().unwrap());
    assert_ne!(one.sources().unwrap(), other.sources().unwrap());

    // The first tree has the sources that this harness is built from.
    assert_eq!(one.sources().unwrap(), here.sources().unwrap());
    firmware::read(&image).unwrap();
    let refused = firmware::read(&other_image).unwrap_err().to_string();
    assert!(refused.contains("built from other sources"), "{refused}");
}

#[test]
fn an_image_without_a_hash_of_its_sources_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let image = firmware::build("pfc", Kind::Inlining, Dialect::Machine).unwrap();
    let mut file = fs::read(image).unwrap();
    let name = programs::SOURCES_SECTION.as_bytes();
    let places: Vec<usize> = (0..file.len() - name.len()).filter(|&at| file[at..].starts_with(name)).collect();
    assert_eq!(places.len(), 1, "the section's name");
    file[places[0] + 1] ^= 1;
    let path = folder.path().join("image");
    fs::write(&path, file).unwrap();
    let refused = firmware::read(&path).unwrap_err().to_string();
    assert!(refused.contains("expected an image of rnic-cc"), "{refused}");
}
