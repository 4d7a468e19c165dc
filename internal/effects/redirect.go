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
		switch op := redirect.Op.String(); op {
		case "<<", "<<-":
			in = input{true, r.value(redirect.Hdoc)}
		case "<<<":
			in = input{true, r.value(redirect.Word)}
		case "<":
			r.redirect("read", redirect.Word)
		case "<&":
		case "<>":
			r.redirect("read", redirect.Word)
			r.redirect("write", redirect.Word)
		default: // > >> >| &> &>> >&
			r.redirect("write", redirect.Word)
		}
	}
	return in
}

func (r *shellReader) redirect(mode string, w *syntax.Word) {
	f := r.value(w)
	if f.known && strings.Trim(f.text, "0123456789-") == "" {
		return // of a descriptor: >&2
	}
	network := strings.TrimPrefix(strings.TrimPrefix(f.text, "/dev/tcp/"), "/dev/udp/")
	if f.known && network != f.text {
		host, port, _ := strings.Cut(network, "/")
		r.add(toolroom.EffectHost, "connect", net.JoinHostPort(host, port))
		return
	}
	if strings.ContainsAny(f.text, "*?[") {
		f.glob = true
	}
	r.file(mode, f)
}
