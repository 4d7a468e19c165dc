package effects

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Limits of reading a path. One that exceeds them is unknown.
const (
	maxPath      = 4096
	maxDecodings = 24
	maxLinks     = 40
)

// possiblePaths returns every file that text can mean to a program: text itself, and text with
// percent-escapes, backslashes, file: URLs and look-alike characters decoded, each with and
// without its links resolved. An empty path among them stands for an unknown file. It subtracts
// the files that it looks up from left.
func possiblePaths(text string, base PathBase, left *int) []string {
	decoded, complete := decodings(text)
	var out []string
	add := func(p string) {
		if slices.Contains(out, p) {
			return
		}
		out = append(out, p)
	}
	for _, d := range decoded {
		absolute, ok := base.absolute(d)
		if !ok {
			add("")
			continue
		}
		// A program may clean the path first, or let the system walk it. The results
		// differ if .. follows a link.
		clean := path.Clean(absolute)
		add(clean)
		for _, p := range []string{absolute, clean} {
			if real, ok := resolve(p, left); ok {
				add(real)
			} else {
				add("")
			}
		}
	}
	if !complete {
		add("")
	}
	return out
}

func (p PathBase) absolute(text string) (string, bool) {
	rest, home := strings.CutPrefix(text, "~")
	switch {
	case len(text) > maxPath:
		return "", false
	case strings.HasPrefix(text, "/"):
		return text, true
	case home && (rest == "" || rest[0] == '/'):
		return p.Home + rest, p.Home != ""
	case filepath.IsAbs(text):
		return filepath.ToSlash(text), true
	default: // including ~name, which is an ordinary file outside a shell
		dir := p.dir()
		return filepath.ToSlash(dir) + "/" + text, dir != ""
	}
}

// decodings returns text and everything that repeated decoding makes of it. complete is false
// if there were too many.
func decodings(text string) (found []string, complete bool) {
	found = []string{text}
	for i := 0; i < len(found); i++ {
		for _, decode := range decoders {
			decoded := decode(found[i])
			known := decoded == ""
			for _, seen := range found {
				known = known || seen == decoded
			}
			if known {
				continue
			}
			if len(found) == maxDecodings {
				return found, false
			}
			found = append(found, decoded)
		}
	}
	return found, true
}

var decoders = []func(string) string{unescape, fileURLPath, replaceBackslashes, replaceLookAlikes, cutAtNUL, strings.TrimSpace, replaceOverlong}

// unescape decodes the escapes %XX and %uXXXX, and leaves every other % as it is.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '%':
			b.WriteByte(s[i])
		case i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b.WriteByte(unhex(s[i+1])<<4 | unhex(s[i+2]))
			i += 2
		case i+5 < len(s) && (s[i+1] == 'u' || s[i+1] == 'U') && isHex(s[i+2]) && isHex(s[i+3]) && isHex(s[i+4]) && isHex(s[i+5]):
			b.WriteRune(rune(unhex(s[i+2]))<<12 | rune(unhex(s[i+3]))<<8 | rune(unhex(s[i+4]))<<4 | rune(unhex(s[i+5])))
			i += 5
		default:
			b.WriteByte('%')
		}
	}
	return b.String()
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	default:
		return c - 'a' + 10
	}
}

// fileURLPath returns the path of file:///x, file://host/x or file:/x, and any other text as
// it is.
func fileURLPath(s string) string {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || !strings.EqualFold(strings.TrimSpace(scheme), "file") {
		return s
	}
	if rest, ok = strings.CutPrefix(rest, "//"); ok {
		if slash := strings.IndexByte(rest, '/'); slash >= 0 {
			rest = rest[slash:]
		}
	}
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "#")
	return rest
}

func replaceBackslashes(s string) string { return strings.ReplaceAll(s, `\`, "/") }

// lookAlikeSlashes are characters that some programs map to / although Unicode does not.
var lookAlikeSlashes = strings.NewReplacer("\u2215", "/", "\u2044", "/", "\u29f8", "/", "\u2216", "/", "\uff3c", "/", "\ufe68", "/")

func replaceLookAlikes(s string) string {
	if isASCII(s) || !utf8.ValidString(s) {
		return s
	}
	return lookAlikeSlashes.Replace(norm.NFKC.String(s))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func cutAtNUL(s string) string {
	before, _, _ := strings.Cut(s, "\x00")
	return before
}

// replaceOverlong decodes . and / from overlong, invalid UTF-8.
func replaceOverlong(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return overlongReplacer.Replace(s)
}

var overlongReplacer = strings.NewReplacer(
	"\xc0\xae", ".", "\xc0\xaf", "/", "\xc1\x9c", "/", "\xe0\x80\xae", ".", "\xe0\x80\xaf", "/",
	"\xf0\x80\x80\xae", ".", "\xf0\x80\x80\xaf", "/",
)

// Resolve returns the absolute path p with its links followed, as the system does. Parts that
// do not exist stay as they are. It returns false if p cannot be resolved, as with a loop of
// links.
func Resolve(p string) (string, bool) {
	left := maxLookups
	return resolve(p, &left)
}

func resolve(p string, left *int) (string, bool) {
	rest := strings.Split(p, "/")
	at := "/"
	if volume := filepath.VolumeName(p); volume != "" {
		at, rest = volume+"/", rest[1:]
	}
	links := 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		if *left--; *left < 0 {
			return "", false
		}
		info, err := os.Lstat(next)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		to, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return "", false
		}
		to = filepath.ToSlash(to)
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return at, len(at) <= maxPath
}
