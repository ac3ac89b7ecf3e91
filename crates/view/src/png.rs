//! Scenes as bitmaps.

use crate::chart::TimeChart;
use crate::scene::Scene;
use crate::svg::{self, SvgDocument, TextMode};
use resvg::{tiny_skia, usvg};

/// Most pixels on one side of a bitmap.
// Below 32767, the largest side that a signed number of 16 bits holds.
pub const MAX_SIDE: u32 = 32_000;
/// Most pixels of a bitmap.
// Four bytes a pixel: 800 MB while it is drawn.
pub const MAX_PIXELS: u64 = 200_000_000;

/// Why there is no bitmap.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PngError {
    /// A scale that no picture has.
    #[error("the scale is {0}; it must be a number above 0")]
    BadScale(f32),
    /// More pixels than [`MAX_SIDE`] or [`MAX_PIXELS`].
    #[error(
        "the picture would be {width} x {height} pixels; the limits are {MAX_SIDE} on one side and \
         {MAX_PIXELS} in all: use a smaller scale or draw fewer cells"
    )]
    TooLarge {
        /// Pixels across, saturated.
        width: u64,
        /// Pixels down, saturated.
        height: u64,
    },
    /// The drawing or the bitmap could not be written; not expected of any scene.
    #[error("the drawing could not be turned into a bitmap: {0}")]
    Failed(String),
}

/// The scene as a PNG file, `scale` pixels per unit of the SVG.
///
/// Text is drawn with a built-in stroke font: the result does not depend on the fonts, or on
/// anything else, of the machine.
pub fn render_scene_png(scene: &Scene, scale: f32) -> Result<Vec<u8>, PngError> {
    rasterize_drawing(&svg::scene_document(scene, TextMode::Strokes), scale)
}

/// The chart as a PNG file, under the same rules.
pub fn render_chart_png(chart: &TimeChart, scale: f32) -> Result<Vec<u8>, PngError> {
    rasterize_drawing(&svg::chart::chart_document(chart, TextMode::Strokes), scale)
}

fn rasterize_drawing(drawing: &SvgDocument, scale: f32) -> Result<Vec<u8>, PngError> {
    if !scale.is_finite() || scale <= 0.0 {
        return Err(PngError::BadScale(scale));
    }
    let side = |length: f64| {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rounded up, at least 1; the cast saturates"
        )]
        let pixels = (length * f64::from(scale)).ceil().max(1.0) as u64;
        pixels
    };
    let (width, height) = (side(drawing.width), side(drawing.height));
    let fits = |pixels: u64| u32::try_from(pixels).ok().filter(|p| *p <= MAX_SIDE);
    let (Some(w), Some(h)) = (fits(width), fits(height)) else {
        return Err(PngError::TooLarge { width, height });
    };
    if width * height > MAX_PIXELS {
        return Err(PngError::TooLarge { width, height });
    }
    let tree = usvg::Tree::from_str(&drawing.text, &usvg::Options::default())
        .map_err(|e| PngError::Failed(e.to_string()))?;
    let mut pixmap =
        tiny_skia::Pixmap::new(w, h).ok_or_else(|| PngError::Failed("no memory for it".into()))?;
    let transform = tiny_skia::Transform::from_scale(scale, scale);
    resvg::render(&tree, transform, &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|e| PngError::Failed(e.to_string()))
}
