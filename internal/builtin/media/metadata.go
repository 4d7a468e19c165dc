package media

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/toolroom/toolroom"
)

// withoutMetadata returns an image without EXIF, XMP, comments and other text, which may reveal
// where and by whom it was taken. The pixels stay the same. (So an image that EXIF rotates
// loses its rotation.)
func withoutMetadata(data []byte, kind string) ([]byte, error) {
	var out []byte
	ok := true
	switch kind {
	case "image/jpeg":
		out, ok = cleanJPEG(data)
	case "image/png":
		out, ok = cleanPNG(data)
	case "image/webp":
		out, ok = cleanWebP(data)
	case "image/gif":
		out, ok = cleanGIF(data)
	default:
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "metadata is removed from JPEG, PNG, GIF and WebP images only, not from %s", kind)
	}
	if !ok {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the image is damaged: its metadata cannot be removed")
	}
	return out, nil
}

// cleanJPEG drops the segments APP1 to APP15 and COM, except ICC profiles (APP2) and Adobe's
// colour transform (APP14), without which colours would change.
func cleanJPEG(data []byte) ([]byte, bool) {
	if !bytes.HasPrefix(data, []byte{0xff, 0xd8}) {
		return nil, false
	}
	out := []byte{0xff, 0xd8}
	for at := 2; ; {
		for at < len(data) && data[at] == 0xff && at+1 < len(data) && data[at+1] == 0xff {
			at++ // fill bytes
		}
		if at+4 > len(data) || data[at] != 0xff {
			return nil, false
		}
		marker, size := data[at+1], int(binary.BigEndian.Uint16(data[at+2:]))+2
		if size < 4 || at+size > len(data) {
			return nil, false
		}
		segment := data[at : at+size]
		keep := marker == 0xe2 && bytes.HasPrefix(segment[4:], []byte("ICC_PROFILE\x00")) || marker == 0xee && bytes.HasPrefix(segment[4:], []byte("Adobe"))
		if !keep && (marker >= 0xe1 && marker <= 0xef || marker == 0xfe) {
			at += size
			continue
		}
		if marker != 0xda { // start of scan: pixels follow
			out, at = append(out, segment...), at+size
			continue
		}
		// What follows the end of the image may be another one, such as a preview.
		end := bytes.LastIndex(data[at:], []byte{0xff, 0xd9})
		if first := endOfScans(data[at:]); first > 0 {
			end = first
		}
		if end < 0 {
			return append(out, data[at:]...), true
		}
		return append(out, data[at:at+end+2]...), true
	}
}

// endOfScans returns the position of the marker after the pixels. In pixels, every 0xff is
// followed by zero or a restart marker.
func endOfScans(data []byte) int {
	for i := 0; i+1 < len(data); i++ {
		if data[i] == 0xff && data[i+1] == 0xd9 {
			return i
		}
	}
	return -1
}

func cleanPNG(data []byte) ([]byte, bool) {
	const signature = "\x89PNG\r\n\x1a\n"
	if !bytes.HasPrefix(data, []byte(signature)) {
		return nil, false
	}
	out := []byte(signature)
	for at := len(signature); at+12 <= len(data); {
		size := int64(binary.BigEndian.Uint32(data[at:])) + 12
		if int64(at)+size > int64(len(data)) {
			return nil, false
		}
		chunk := data[at : at+int(size)]
		at += int(size)
		switch kind := string(chunk[4:8]); kind {
		case "eXIf", "tEXt", "zTXt", "iTXt", "tIME", "caBX":
		default:
			if crc32.ChecksumIEEE(chunk[4:size-4]) != binary.BigEndian.Uint32(chunk[size-4:]) {
				return nil, false
			}
			out = append(out, chunk...)
			if kind == "IEND" {
				return out, true
			}
		}
	}
	return nil, false
}

func cleanWebP(data []byte) ([]byte, bool) {
	if len(data) < 12 || string(data[:4]) != "RIFF" || string(data[8:12]) != "WEBP" {
		return nil, false
	}
	out := bytes.Clone(data[:12])
	for at := 12; at+8 <= len(data); {
		size := int64(binary.LittleEndian.Uint32(data[at+4:]))
		size += 8 + size%2
		if int64(at)+size > int64(len(data)) {
			return nil, false
		}
		chunk := bytes.Clone(data[at : at+int(size)])
		at += int(size)
		switch string(chunk[:4]) {
		case "EXIF", "XMP ":
			continue
		case "VP8X":
			if len(chunk) > 8 {
				chunk[8] &^= 0x08 | 0x04 // it says whether there are EXIF and XMP
			}
		}
		out = append(out, chunk...)
	}
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8)) // it is shorter than data
	return out, true
}

// cleanGIF drops comments and application extensions, except the one that repeats an animation.
func cleanGIF(data []byte) ([]byte, bool) {
	if len(data) < 13 || string(data[:3]) != "GIF" {
		return nil, false
	}
	at := 13 + colourTableSize(data[10])
	if at > len(data) {
		return nil, false
	}
	out := bytes.Clone(data[:at])
	for at < len(data) {
		start := at
		switch data[at] {
		case 0x3b:
			return append(out, 0x3b), true
		case 0x2c:
			if at+10 > len(data) {
				return nil, false
			}
			at += 10 + colourTableSize(data[at+9]) + 1 // and the size of codes
		case 0x21:
			at += 2
		default:
			return nil, false
		}
		for {
			if at >= len(data) {
				return nil, false
			}
			size := int(data[at])
			at += size + 1
			if size == 0 {
				break
			}
		}
		if at > len(data) {
			return nil, false
		}
		block := data[start:at]
		isText := block[0] == 0x21 && (block[1] == 0xfe || block[1] == 0xff && !bytes.HasPrefix(block[3:], []byte("NETSCAPE2.0")))
		if !isText {
			out = append(out, block...)
		}
	}
	return nil, false
}

// colourTableSize returns the size, in bytes, of the colour table that a GIF's flags announce.
func colourTableSize(flags byte) int {
	if flags&0x80 == 0 {
		return 0
	}
	return 3 << (flags&7 + 1)
}
