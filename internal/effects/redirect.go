package effects

import (
	"net"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toolroom/toolroom"
)

// input is what a command reads from a text in the script.
type input struct {
	given bool
	text  field
}

// redirects notes the files of redirects, and gives the text that one reads.
func (r *shellReader) redirects(list []*syntax.Redirect) (in input) {
	for _, redirect := range list {
		stdin := redirect.N == nil || redirect.N.Value == "0"
		op := redirect.Op.String()
		if stdin && strings.HasPrefix(op, "<") {
			in = input{} // the last one counts
		}
		switch op {
		case "<<", "<<-":
			if text := r.heredoc(redirect); stdin {
				in = input{true, text}
			}
		case "<<<":
			if text := r.value(redirect.Word); stdin {
				in = input{true, text}
			}
		case "<":
			r.redirect("read", redirect.Word)
		case "<&":
		case ">&":
			if f := r.value(redirect.Word); !f.known || f.text == "" || strings.Trim(f.text, "0123456789-") != "" {
				r.redirect("write", redirect.Word) // else a descriptor
			}
		case "<>":
			r.redirect("read", redirect.Word)
			r.redirect("write", redirect.Word)
		default: // > >> >| &> &>> >&
			r.redirect("write", redirect.Word)
		}
	}
	return in
}

// heredoc returns the text of <<, which is as it stands if its delimiter is quoted.
func (r *shellReader) heredoc(redirect *syntax.Redirect) field {
	if redirect.Hdoc == nil || redirect.Word.Lit() != "" && !strings.Contains(redirect.Word.Lit(), "\\") {
		return r.value(redirect.Hdoc)
	}
	if text := redirect.Hdoc.Lit(); text != "" || len(redirect.Hdoc.Parts) == 0 {
		return field{text: text, known: true}
	}
	return field{text: UnknownProgram}
}

func (r *shellReader) redirect(mode string, w *syntax.Word) {
	f := r.value(w)
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
	r.file(mode, f)
}

// mayBeDevice reports whether a word of which a part is not known may begin with /dev/tcp/.
func mayBeDevice(w *syntax.Word) bool {
	lit, ok := w.Parts[0].(*syntax.Lit)
	return !ok || strings.HasPrefix("/dev/tcp/", lit.Value) || strings.HasPrefix(lit.Value, "/dev/")
}
