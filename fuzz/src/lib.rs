//! Operations and models that the fuzz targets drive.
