package cli

import (
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/pattern"
)

// fewFlags is the number of flags below which the flags of the manual page are added to those
// of a help text.
const fewFlags = 12

// maxManual limits the text that is read of one page.
const maxManual = 2 << 20

// manualFlags returns the options in the manual page of a command. It returns none if the page
// does not exist or cannot be read.
func manualFlags(command string, path []string) []flag {
	page := strings.Join(append([]string{filepath.Base(command)}, path...), "-")
	if strings.ContainsAny(page, `/\`) {
		return nil
	}
	folders := []string{"/usr/share/man", "/usr/local/share/man", "/opt/homebrew/share/man"}
	if file, err := exec.LookPath(command); err == nil {
		if file, err = filepath.EvalSymlinks(file); err == nil {
			folders = slices.Insert(folders, 0, filepath.Join(filepath.Dir(file), "..", "share", "man"))
		}
	}
	for _, folder := range folders {
		for _, ending := range []string{".1.gz", ".1"} {
			text, err := readManual(filepath.Join(folder, "man1", page+ending))
			if err == nil {
				return parseManual(text)
			}
		}
	}
	return nil
}

func readManual(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", &fs.PathError{Op: "read", Path: file, Err: errors.New("not a file")}
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var text io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if text, err = gzip.NewReader(f); err != nil {
			return "", err
		}
	}
	all, err := io.ReadAll(io.LimitReader(text, maxManual))
	return strings.ToValidUTF8(string(all), "\uFFFD"), err
}

var (
	roffFont   = pattern.Lazy(`\\f(?:\[[^\]]*\]|\(..|.)|\\[&|^,/:%]|\\s[-+]?\d`)
	roffSpaces = strings.NewReplacer(`\-`, "-", `\(dq`, `"`, `\(aq`, "'", `\(cq`, "'", `\(oq`, "'", `\(lq`, `"`, `\(rq`, `"`, `\(hy`, "-", `\(em`, "-", `\(en`, "-", `\(bu`, "*", `\ `, " ", `\~`, " ", `\e`, `\`, `\'`, "'", "\\`", "`", `\.`, ".")
)

// roffText returns a line of text without its escapes.
func roffText(line string) string {
	return roffSpaces.Replace(roffFont().ReplaceAllString(line, ""))
}

// roffWords returns the arguments of a macro.
func roffWords(line string) []string {
	var words []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if rest, quoted := strings.CutPrefix(line, `"`); quoted {
			word, after, _ := strings.Cut(rest, `"`)
			words, line = append(words, word), after
			continue
		}
		word, after, _ := strings.Cut(line, " ")
		words, line = append(words, word), after
	}
	return words
}

// parseManual reads the options of a page in the macros man (also as DocBook and curl write
// them) and mdoc. It skips what it does not understand.
func parseManual(text string) []flag {
	p := manualParser{seen: map[string]bool{}}
	for line := range strings.SplitSeq(text, "\n") {
		if len(line) <= maxHelpLine {
			p.readLine(strings.TrimRight(line, " \r"))
		}
	}
	p.endItem()
	return p.flags
}

type manualParser struct {
	flags []flag
	seen  map[string]bool

	tagNext bool // the next text may be a tag
	tag     string
	text    []string
}

func (p *manualParser) readLine(line string) {
	macro, rest, _ := strings.Cut(line, " ")
	switch macro {
	case ".PP", ".P", ".TP", ".Pp", ".LP", ".TQ":
		p.endItem()
		p.tagNext = true
	case ".IP":
		p.endItem()
		if words := roffWords(rest); len(words) > 0 {
			p.startItem(roffText(words[0]))
		}
	case ".It":
		p.endItem()
		p.startItem(mdocTag(rest))
	case ".SH", ".Sh", ".SS", ".Ss":
		p.endItem()
	case ".B", ".I", ".BR", ".BI", ".IR", ".RB", ".RI", ".IB":
		between := " "
		if len(macro) == 3 {
			between = ""
		}
		p.addText(roffText(strings.Join(roffWords(rest), between)))
	default:
		if mdoc := strings.HasPrefix(line, ".") && len(macro) == 3 && macro[1] >= 'A' && macro[1] <= 'Z' && strings.ToLower(macro[2:]) == macro[2:]; mdoc {
			p.addText(roffText(strings.Join(roffWords(rest), " "))) // .Ar file, .Nm
		} else if !strings.HasPrefix(line, ".") && !strings.HasPrefix(line, "'") {
			p.addText(roffText(line))
		}
	}
}

// addText adds text: the tag of an option, or a part of its description.
func (p *manualParser) addText(text string) {
	if p.tagNext {
		p.startItem(text)
		return
	}
	if p.tag != "" && text != "" && len(p.text) < 8 {
		p.text = append(p.text, text)
	}
}

// startItem begins an option if text is its tag.
func (p *manualParser) startItem(text string) {
	p.tagNext = false
	if strings.HasPrefix(text, "-") {
		p.tag = text
	}
}

// endItem adds the option that ends here, if there is one.
func (p *manualParser) endItem() {
	if f, ok := parseManualTag(p.tag); ok && p.tag != "" && len(p.flags) < maxFlags && !p.seen[f.key()] {
		p.seen[f.key()] = true
		f.text = shorten(strings.Join(strings.Fields(strings.Join(p.text, " ")), " "), maxAbout)
		p.flags = append(p.flags, f)
	}
	p.tagNext, p.tag, p.text = false, "", nil
}

// mdocTag converts the argument of .It, such as "Fl o Ar option", to a tag such as "-o option".
func mdocTag(line string) string {
	var b strings.Builder
	dashes := ""
	for _, word := range roffWords(line) {
		switch word {
		case "Fl":
			dashes += "-"
		case "Ar":
			b.WriteString(" ")
		case "Xo", "Xc", "Oo", "Oc", "Op", "Ns", "Cm", "Sm", "No", "off", "on", "Li":
		case ",":
			b.WriteString(", ")
		default:
			b.WriteString(dashes + roffText(word))
			dashes = ""
		}
	}
	return b.String()
}
