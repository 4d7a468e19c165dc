package effects

import (
	"net"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toolroom/toolroom"
)

// input is the standard input of a command, if it is given in the script as <<EOF or <<<.
type input struct {
	given bool
	text  field
}

// readRedirects adds the files of redirects, and returns the standard input that the last one
// gives.
func (r *shellReader) readRedirects(list []*syntax.Redirect) (in input) {
	for _, redirect := range list {
		stdin := redirect.N == nil || redirect.N.Value == "0"
		op := redirect.Op.String()
		if stdin && strings.HasPrefix(op, "<") {
			in = input{} // the last one counts
		}
		switch op {
		case "<<", "<<-":
			if text := r.heredocText(redirect); stdin {
				in = input{true, text}
			}
		case "<<<":
			if text := r.expandUnsplit(redirect.Word); stdin {
				in = input{true, text}
			}
		case "<":
			r.addRedirect("read", redirect.Word)
		case "<&":
		case ">&":
			if f := r.expandUnsplit(redirect.Word); !f.known || f.text == "" || strings.Trim(f.text, "0123456789-") != "" {
				r.addRedirect("write", redirect.Word) // else a descriptor
			}
		case "<>":
			r.addRedirect("read", redirect.Word)
			r.addRedirect("write", redirect.Word)
		default: // > >> >| &> &>> >&
			r.addRedirect("write", redirect.Word)
		}
	}
	return in
}

// heredocText returns the text of a here-document. It is not expanded if its delimiter is
// quoted.
func (r *shellReader) heredocText(redirect *syntax.Redirect) field {
	if redirect.Hdoc == nil || redirect.Word.Lit() != "" && !strings.Contains(redirect.Word.Lit(), "\\") {
		return r.expandUnsplit(redirect.Hdoc)
	}
	if text := redirect.Hdoc.Lit(); text != "" || len(redirect.Hdoc.Parts) == 0 {
		return field{text: text, known: true}
	}
	return field{text: UnknownProgram}
}

func (r *shellReader) addRedirect(mode string, w *syntax.Word) {
	f := r.expandUnsplit(w)
	network := strings.TrimPrefix(strings.TrimPrefix(f.text, "/dev/tcp/"), "/dev/udp/")
	if f.known && network != f.text {
		host, port, _ := strings.Cut(network, "/")
		r.add(toolroom.EffectHost, "connect", net.JoinHostPort(host, port))
		return
	}
	if !f.known && mayBeDevice(w) {
		r.add(toolroom.EffectHost, "connect", "")
	}
	if strings.ContainsAny(f.text, "*?[") {
		f.glob = true
	}
	r.addFile(mode, f)
}

// mayBeDevice reports whether a partly unknown word may begin with /dev/tcp/.
func mayBeDevice(w *syntax.Word) bool {
	lit, ok := w.Parts[0].(*syntax.Lit)
	return !ok || strings.HasPrefix("/dev/tcp/", lit.Value) || strings.HasPrefix(lit.Value, "/dev/")
}
