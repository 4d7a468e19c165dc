package effects

import (
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// webOption is what an option of curl or wget does with its value.
type webOption int

const (
	webOther   webOption = iota // the value has no effect
	webFlag                     // takes no value
	webMethod                   // the method
	webWrites                   // a file to write
	webUploads                  // a file to send
	webBody                     // a body, or @file
	webAddress                  // a URL
	webReroute                  // changes which host is reached
	webHere                     // takes no value; writes into the current folder
	webReads                    // a file to read
	webUnknown                  // an option that is not listed here
)

// webLetters and webFlags are the options without a value that have no effect.
var (
	webLetters = map[string]string{"curl": "sSLkfvigGIN46q#0123anhMV", "wget": "bvqdcNSLkEHpFKnh46V"}
	webFlags   = shellWords(`--silent --show-error --location --fail --insecure --verbose --include --head --get --compressed --globoff --no-buffer
	--http1.1 --http2 --http3 --ipv4 --ipv6 --tlsv1.2 --tlsv1.3 --no-progress-meter --progress-bar --fail-with-body --quiet --no-verbose
	--no-check-certificate --no-clobber --continue --timestamping --spider --server-response --https-only --help --version --path-as-is`)
)

// webOptions are the options of curl and wget. A key that begins with "wget " applies to wget
// only, and takes precedence.
var webOptions = map[string]webOption{
	"-X": webMethod, "--request": webMethod, "--method": webMethod,
	"-o": webWrites, "--output": webWrites, "-D": webWrites, "--dump-header": webWrites, "-c": webWrites, "--cookie-jar": webWrites, "--output-document": webWrites, "wget -O": webWrites, "wget -c": webFlag,
	"-O": webHere, "-J": webHere, "--remote-name": webHere, "wget -r": webHere, "wget -m": webHere,
	"wget -e": webUnknown, "wget -T": webOther, "wget -X": webOther, "wget -D": webOther, "wget -A": webOther, "wget -R": webOther, "wget -I": webOther, "wget -U": webOther,
	"wget -t": webOther, "wget -w": webOther, "wget -Q": webOther, "wget -l": webOther, "wget -P": webWrites, "wget -a": webWrites, "wget -B": webReroute,
	"-b": webReads, "--cookie": webReads, "-E": webReads, "--cert": webReads, "--key": webReads, "--cacert": webReads,
	"-T": webUploads, "--upload-file": webUploads, "--post-file": webUploads, "--body-file": webUploads,
	"-d": webBody, "--data": webBody, "--data-raw": webBody, "--data-binary": webBody, "--data-ascii": webBody, "--data-urlencode": webBody,
	"-F": webBody, "--form": webBody, "--form-string": webBody, "--json": webBody, "--post-data": webBody, "--body-data": webBody,
	"--url": webAddress, "-K": webReroute, "--config": webReroute, "wget -i": webReroute, "-x": webReroute, "--proxy": webReroute, "--preproxy": webReroute,
	"--socks5": webReroute, "--socks5-hostname": webReroute, "--resolve": webReroute, "--connect-to": webReroute, "--unix-socket": webReroute, "--doh-url": webReroute,
	"-H": webOther, "--header": webOther, "-u": webOther, "--user": webOther, "-A": webOther, "--user-agent": webOther, "-e": webOther, "--referer": webOther,
	"-m": webOther, "--max-time": webOther, "--retry": webOther, "-w": webOther, "--write-out": webOther, "-C": webOther,
	"--connect-timeout": webOther, "-r": webOther, "--range": webOther, "-y": webOther, "-Y": webOther, "-z": webOther,
}

// readWebClient reads the command line of curl or wget.
func (r *shellReader) readWebClient(name string, args []field) {
	method, body := "", false
	saves := name == "wget"
	var addresses []field
	for i := 0; i < len(args); i++ {
		f := args[i]
		if !f.known || len(f.text) < 2 || f.text[0] != '-' {
			addresses = append(addresses, f)
			continue
		}
		option, value, joined := parseWebOption(name, f.text)
		if option != webFlag && option != webHere && option != webUnknown && !joined {
			if i++; i < len(args) {
				value = args[i]
			}
		}
		switch option {
		case webMethod:
			method = strings.ToLower(value.text)
			if !value.known {
				method = UnknownProgram
			}
		case webWrites:
			r.addFile("write", value)
			saves = saves && f.text[:min(2, len(f.text))] != "-O" && !strings.HasPrefix(f.text, "--output-document")
		case webHere:
			saves = true
			r.addFile("write", field{text: ".", known: true})
		case webReads, webOther:
			if file, ok := strings.CutPrefix(value.text, "@"); ok || option == webReads && !strings.Contains(value.text, "=") {
				r.addFile("read", field{text: file, known: value.known})
			}
		case webUnknown:
			r.add(toolroom.EffectHost, "", "")
			r.add(toolroom.EffectFile, "", "")
			if name == "wget" {
				r.addAnyCommand() // use_askpass
			}
		case webUploads:
			body = true
			r.addFile("read", value)
		case webBody:
			body = true
			if at := strings.IndexAny(value.text, "@<"); at >= 0 || !value.known {
				r.addFile("read", field{text: value.text[at+1:], known: value.known})
			}
		case webAddress:
			addresses = append(addresses, value)
		case webReroute:
			r.add(toolroom.EffectHost, "", "")
			r.add(toolroom.EffectFile, "", "") // a file of options
		}
	}
	switch {
	case method == UnknownProgram:
		method = ""
	case method == "" && body:
		method = "post"
	case method == "":
		method = "get"
	}
	for _, f := range addresses {
		if !f.known || f.glob || strings.ContainsAny(f.text, "{}[]") {
			r.add(toolroom.EffectHost, method, "")
			if mayBeOption(f) {
				r.add(toolroom.EffectFile, "", "")
			}
			continue
		}
		if saves {
			r.addFile("write", field{text: path.Base(f.text), known: true})
		}
		r.addURL(method, f.text)
	}
}

// parseWebOption parses an option and its value: --name=value, -Xvalue, or a bundle such as
// -sSLo, of which the last letter can take a value. joined means that text has the value.
func parseWebOption(program, text string) (option webOption, value field, joined bool) {
	find := func(flag string) (webOption, bool) {
		if option, ok := webOptions[program+" "+flag]; ok {
			return option, true
		}
		option, ok := webOptions[flag]
		return option, ok
	}
	if strings.HasPrefix(text, "--") {
		flag, rest, joined := strings.Cut(text, "=")
		option, ok := find(flag)
		if !ok {
			if option = webUnknown; webFlags[flag] {
				option = webFlag
			}
		}
		return option, field{text: rest, known: true}, joined
	}
	option = webFlag
	for i := 1; i < len(text); i++ {
		if strings.IndexByte(webLetters[program], text[i]) >= 0 {
			continue
		}
		switch found, ok := find("-" + text[i:i+1]); {
		case !ok || found == webUnknown:
			return webUnknown, field{}, false
		case found == webHere:
			option = webHere
		case found != webFlag:
			return found, field{text: text[i+1:], known: true}, i+1 < len(text)
		}
	}
	return option, field{}, false
}

// addURL adds the host or file of a URL, whose http:// may be omitted.
func (r *shellReader) addURL(mode, text string) {
	if rest, ok := strings.CutPrefix(strings.ToLower(text), "file:"); ok && !strings.HasPrefix(rest, "//") {
		r.addFile("read", field{text: text[len("file:"):], known: true})
		return
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err == nil && u.Scheme == "file":
		r.addFile("read", field{text: u.Path, known: true})
	case err != nil || u.Host == "":
		r.add(toolroom.EffectHost, mode, "")
	default:
		port := u.Port()
		if port == "" {
			port = map[string]string{"https": "443", "ftp": "21", "ws": "80", "wss": "443"}[u.Scheme]
		}
		if port == "" {
			port = "80"
		}
		r.addHost(mode, u.Hostname(), port)
	}
}

func (r *shellReader) addHost(mode, host, port string) {
	r.add(toolroom.EffectHost, mode, net.JoinHostPort(strings.ToLower(host), port))
}

// readRemoteCopy reads the operands of scp and rsync, which can be host:path.
func (r *shellReader) readRemoteCopy(args []field) {
	for _, f := range operands(args) {
		if !f.known {
			r.add(toolroom.EffectHost, "connect", "")
			continue
		}
		host, _, remote := strings.Cut(f.text, ":")
		if strings.Contains(f.text, "://") {
			r.addURL("connect", f.text)
		} else if remote && !strings.Contains(host, "/") {
			r.addHost("connect", host[strings.LastIndexByte(host, '@')+1:], "22")
		} else {
			r.addFile("", f)
		}
	}
}

// readNetcat reads the command line of netcat: its options, a host and a port.
func (r *shellReader) readNetcat(args []field) {
	files := operands(args)
	safe := !slices.ContainsFunc(args, func(f field) bool {
		return !f.known || len(f.text) > 1 && f.text[0] == '-' && strings.Trim(f.text[1:], "vzun46N") != ""
	})
	if safe && len(files) == 2 && strings.Trim(files[1].text, "0123456789") == "" {
		r.addHost("connect", files[0].text, files[1].text)
		return
	}
	r.addUnknownProgram(args)
}
