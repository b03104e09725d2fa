//! Writes captures: pcapng with nanosecond stamps, which every current tool reads.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::pcapng::{
    BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE_DESCRIPTION, OPTION_END, OPTION_IF_NAME, OPTION_IF_TSRESOL,
    SECTION_HEADER,
};
use super::{ETHERNET, USUAL_SNAPLEN};

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
        Self::new(NewFile::create(path)?, interfaces)
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
        section.extend([0xff; 8]); // length of the section: not said
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

    /// Writes a packet: its interface, nanoseconds since 1970, its captured bytes, and its length in bytes on the
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

    /// Flushes what was written and returns where it went.
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

/// A file that is written under a temporary name in its own folder and takes its true name when it is finished, so
/// that nobody meets it half written. Dropped unfinished, it leaves nothing behind, and what stood at the path stays.
pub struct NewFile {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl NewFile {
    /// Starts a file that is to appear at `path`, in place of what is there.
    ///
    /// # Errors
    /// `path` exists and is not a regular file, or its folder cannot be written to.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::create_temporary(path).map(|file| Self { path: path.to_owned(), file }).map_err(|error| at(path, error))
    }

    fn create_temporary(path: &Path) -> io::Result<BufWriter<NamedTempFile>> {
        // Renaming over a device or a pipe would replace it by a file.
        if fs::metadata(path).is_ok_and(|existing| !existing.is_file()) {
            return Err(refused("exists and is not a regular file".to_owned()));
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let mut prefix = path.file_name().unwrap_or(OsStr::new("capture")).to_owned();
        prefix.push(".");
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".part");
        // A temporary file is private by default; this one is going to be an ordinary file, subject to the umask.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        Ok(BufWriter::with_capacity(256 << 10, builder.tempfile_in(folder)?))
    }

    /// Gives the complete file its name.
    ///
    /// # Errors
    /// The last bytes cannot be written, or the file cannot be renamed; then it is removed.
    pub fn finish(self) -> io::Result<()> {
        let Self { path, file } = self;
        let written = file.into_inner().map_err(|error| error.into_error());
        written
            .and_then(|temporary| temporary.persist(&path).map_err(|error| error.error))
            .map(drop)
            .map_err(|error| at(&path, error))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
