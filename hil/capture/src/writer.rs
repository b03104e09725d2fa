//! Writes captures as pcapng with nanosecond time stamps, which every current tool reads.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufWriter, Stdout, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::pcapng::{
    BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE_DESCRIPTION, OPTION_END, OPTION_IF_NAME, OPTION_IF_TSRESOL,
    SECTION_HEADER,
};
use super::{ETHERNET, USUAL_SNAPLEN, interrupt};

/// Writes one section of little-endian pcapng with Ethernet interfaces whose clocks count nanoseconds.
pub struct Writer<W> {
    sink: W,
    interfaces: usize,
}

impl Writer<NewFile> {
    /// Starts a capture in a file, which appears at `path` when [`Writer::finish`] succeeds and not before.
    ///
    /// # Errors
    /// As [`NewFile::create`] and [`Writer::new`].
    pub fn create(path: &Path, interfaces: &[&str]) -> io::Result<Self> {
        Self::new(NewFile::create(path, &[])?, interfaces)
    }

    /// Completes the file.
    ///
    /// # Errors
    /// As [`NewFile::finish`].
    pub fn finish(self) -> io::Result<()> {
        self.sink.finish()
    }
}

impl<W: Write> Writer<W> {
    /// Writes the section header and a description of each interface, named in order from index 0.
    ///
    /// # Errors
    /// A name is longer than 65,535 bytes, or writing fails.
    pub fn new(mut sink: W, interfaces: &[&str]) -> io::Result<Self> {
        let mut section = Vec::new();
        section.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        section.extend([1, 0, 0, 0]); // version 1.0
        section.extend([0xff; 8]); // length of the section: not given
        write_block(&mut sink, u32::from_le_bytes(SECTION_HEADER), &section)?;
        for name in interfaces {
            let mut description = Vec::new();
            description.extend(ETHERNET.to_le_bytes()); // and 16 reserved bits
            description.extend(USUAL_SNAPLEN.to_le_bytes());
            push_option(&mut description, OPTION_IF_NAME, name.as_bytes())?;
            push_option(&mut description, OPTION_IF_TSRESOL, &[9])?;
            push_option(&mut description, OPTION_END, &[])?;
            write_block(&mut sink, INTERFACE_DESCRIPTION, &description)?;
        }
        Ok(Self { sink, interfaces: interfaces.len() })
    }

    /// Writes a packet: its interface, its time in nanoseconds since 1970, its captured bytes, and its length in bytes on the
    /// wire.
    ///
    /// # Errors
    /// There is no such interface, `bytes` is longer than `original_len` or than 262,144 bytes, or writing fails.
    pub fn write(&mut self, interface: u32, timestamp_ns: u64, bytes: &[u8], original_len: u32) -> io::Result<()> {
        if interface as usize >= self.interfaces {
            return Err(refused(format!("interface {interface}: expected one of the {} declared", self.interfaces)));
        }
        let limit = original_len.min(USUAL_SNAPLEN);
        let captured = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if captured > limit {
            return Err(refused(format!("packet of {} bytes: expected at most {limit}", bytes.len())));
        }
        let padding = &[0; 3][..(captured.next_multiple_of(4) - captured) as usize];
        let length = 32 + captured.next_multiple_of(4);
        let head = [
            ENHANCED_PACKET,
            length,
            interface,
            (timestamp_ns >> 32) as u32,
            timestamp_ns as u32,
            captured,
            original_len,
        ];
        self.sink.write_all(head.map(u32::to_le_bytes).as_flattened())?;
        self.sink.write_all(bytes)?;
        self.sink.write_all(padding)?;
        self.sink.write_all(&length.to_le_bytes())
    }

    /// Flushes the written bytes and returns the sink.
    ///
    /// # Errors
    /// Writing fails.
    pub fn into_sink(mut self) -> io::Result<W> {
        self.sink.flush()?;
        Ok(self.sink)
    }
}

/// Writes a block whose body is a multiple of 4 bytes long.
fn write_block(sink: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(12 + body.len()).map_err(io::Error::other)?;
    sink.write_all(&kind.to_le_bytes())?;
    sink.write_all(&length.to_le_bytes())?;
    sink.write_all(body)?;
    sink.write_all(&length.to_le_bytes())
}

fn push_option(body: &mut Vec<u8>, code: u16, value: &[u8]) -> io::Result<()> {
    let length = u16::try_from(value.len())
        .map_err(|_| refused(format!("interface name of {} bytes: expected at most 65535", value.len())))?;
    body.extend(code.to_le_bytes());
    body.extend(length.to_le_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
    Ok(())
}

fn refused(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// A file that is written under a temporary name in its own folder and renamed when it is finished, so that the path never has
/// an incomplete file. If it is dropped unfinished, or a signal ends the program (see [`interrupt`]), the temporary file is
/// removed, and a file that was at the path before stays. The path `-` is standard output.
pub struct NewFile {
    /// The path that the user gave.
    name: PathBuf,
    sink: BufWriter<Sink>,
}

enum Sink {
    Standard(Stdout),
    File(Part),
}

/// A file that still has its temporary name.
struct Part {
    /// Its final name.
    path: PathBuf,
    file: Option<NamedTempFile>,
}

impl NewFile {
    /// The extension of the temporary names of files that are not finished.
    pub const UNFINISHED: &str = "part";

    /// Starts a file that replaces the file at `path` when it is finished. If `path` is a symbolic link, it replaces the link's
    /// target. `inputs` are files that it must not replace, under any name.
    ///
    /// # Errors
    /// `path` is one of the inputs, or exists and is not a regular file, or its folder cannot be written to.
    pub fn create(path: &Path, inputs: &[&Path]) -> io::Result<Self> {
        let sink = if path == Path::new("-") {
            Sink::Standard(io::stdout())
        } else {
            Sink::File(Part::create(path, inputs).map_err(|error| at(path, error))?)
        };
        Ok(Self { name: path.to_owned(), sink: BufWriter::with_capacity(256 << 10, sink) })
    }

    /// Whether it is standard output; nothing else may then be printed there.
    pub fn is_standard_output(&self) -> bool {
        matches!(self.sink.get_ref(), Sink::Standard(_))
    }

    /// Writes to the disk what was written so far, so that the file is whole under its name even after a loss of power.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn sync(&mut self) -> io::Result<()> {
        let written = self.sink.flush().and_then(|()| match self.sink.get_ref() {
            Sink::File(Part { file: Some(file), .. }) => file.as_file().sync_all(),
            _ => Ok(()),
        });
        written.map_err(|error| at(&self.name, error))
    }

    /// Gives the complete file its name.
    ///
    /// # Errors
    /// The last bytes cannot be written, or the file cannot be renamed; then it is removed.
    pub fn finish(self) -> io::Result<()> {
        let Self { name, sink } = self;
        let written = sink.into_inner().map_err(|error| error.into_error()).and_then(|sink| match sink {
            Sink::Standard(mut output) => output.flush(),
            Sink::File(part) => part.finish(),
        });
        written.map_err(|error| at(&name, error))
    }
}

impl Part {
    fn create(path: &Path, inputs: &[&Path]) -> io::Result<Self> {
        let path = followed(path)?;
        let existing = fs::metadata(&path).ok();
        if let Some(existing) = &existing {
            // Renaming over a device or a pipe would replace it by a file.
            if !existing.is_file() {
                return Err(refused(
                    "exists and is not a regular file: give the name of a file, or - for standard output".to_owned(),
                ));
            }
            for input in inputs {
                if fs::metadata(input).is_ok_and(|input| (input.dev(), input.ino()) == (existing.dev(), existing.ino()))
                {
                    return Err(refused(format!("is {}, which is read: give another name", input.display())));
                }
            }
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let mut prefix = path.file_name().unwrap_or(OsStr::new("capture")).to_owned();
        prefix.push(".");
        let mut builder = tempfile::Builder::new();
        let suffix = format!(".{}", NewFile::UNFINISHED);
        builder.prefix(&prefix).suffix(&suffix);
        // A temporary file is private by default. This one becomes an ordinary file, so it has an ordinary file's permissions, or
        // those of the file that it replaces.
        builder.permissions(PermissionsExt::from_mode(0o666));
        let file = interrupt::begin(|| builder.tempfile_in(folder), NamedTempFile::path)?;
        if let Some(existing) = existing {
            file.as_file().set_permissions(existing.permissions())?;
        }
        Ok(Self { path, file: Some(file) })
    }

    fn finish(mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let part = file.path().to_owned();
        interrupt::end(&part, || file.persist(&self.path)).map(drop).map_err(|error| error.error)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            let part = file.path().to_owned();
            interrupt::end(&part, || drop(file));
        }
    }
}

/// The file that a path names after symbolic links are followed; it need not exist.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    // Linux follows at most 40 links too.
    for _ in 0..40 {
        if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
            return Ok(path);
        }
        let target = fs::read_link(&path)?;
        path = path.parent().map_or(target.clone(), |folder| folder.join(&target));
    }
    Err(refused("symbolic links that lead in a circle: give the name of a file".to_owned()))
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(output) => output.write(bytes),
            Self::File(Part { file: Some(file), .. }) => file.write(bytes),
            Self::File(Part { file: None, .. }) => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(output) => output.flush(),
            Self::File(Part { file: Some(file), .. }) => file.flush(),
            Self::File(Part { file: None, .. }) => Ok(()),
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
