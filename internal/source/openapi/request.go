package openapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/source/httpcall"
	"github.com/toolroom/toolroom/internal/source/secretref"
)

// request makes the request of a call, without credentials. The query that it returns comes
// before that of the URL.
func (o *operation) request(ctx context.Context, args httpcall.Arguments) (*http.Request, url.Values, error) {
	query, cookies, header := url.Values{}, url.Values{}, http.Header{}
	// pathTexts and queryTexts are the placeholders of the path, each with its text in the path
	// itself and in the query that the document writes after it.
	var pathTexts, queryTexts []string
	// commaLists are parts of the query that are escaped already.
	var commaLists []string
	for _, p := range o.parameters {
		raw, given := args.Get(p.argument)
		if !given {
			if p.in == "path" {
				return nil, nil, httpcall.BadArgument(p.argument, "it is part of the path and is missing").WithHint("set %s", p.argument)
			}
			continue
		}
		v, err := p.value(raw)
		if err != nil {
			return nil, nil, httpcall.BadArgument(p.argument, err.Error())
		}
		var text string
		switch p.in {
		case "path":
			text, err = p.inPath(v)
			pathTexts = append(pathTexts, "{"+p.name+"}", text)
			queryTexts = append(queryTexts, "{"+p.name+"}", v.text)
		case "header":
			text, err = p.inHeader(v)
			header.Set(p.name, text)
		case "cookie":
			addTo(cookies, p.name, p.style, p.explode, v)
		default:
			if v.kind != scalar && p.style == "form" && !p.explode {
				// The commas between the items stay, and those of the items are escaped.
				text, err = v.joined(",", ",", func(item string) (string, error) { return url.QueryEscape(item), nil })
				commaLists = append(commaLists, url.QueryEscape(p.name)+"="+text)
				break
			}
			addTo(query, p.name, p.style, p.explode, v)
		}
		if err != nil {
			return nil, nil, httpcall.BadArgument(p.argument, err.Error())
		}
	}
	// One pass replaces all of them, so that a text such as {other} stays.
	inQuery := strings.NewReplacer(queryTexts...)
	for name, values := range o.query {
		fixed := make([]string, len(values))
		for i, text := range values {
			fixed[i] = inQuery.Replace(text)
		}
		query[name] = append(fixed, query[name]...)
	}
	address, err := httpcall.Address(o.server, escapeLiterals(strings.NewReplacer(pathTexts...).Replace(o.path)))
	if err != nil {
		return nil, nil, err
	}
	content, contentType, err := o.content(args)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, o.method, address.String(), content)
	if err != nil {
		return nil, nil, fmt.Errorf("make the request: %w", err)
	}
	request.Header = header
	request.URL.RawQuery = strings.Join(commaLists, "&")
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	for _, name := range slices.Sorted(maps.Keys(cookies)) {
		for _, text := range cookies[name] {
			request.AddCookie(&http.Cookie{Name: name, Value: escapeCookie(text)})
		}
	}
	return request, query, nil
}

func (p parameter) value(raw json.RawMessage) (value, error) {
	if p.json {
		return value{text: string(raw)}, nil
	}
	return newValue(raw)
}

// escapeLiterals escapes characters of the document's path that are invalid in a path,
// such as spaces. The arguments in it are escaped already and have none.
func escapeLiterals(path string) string {
	var out strings.Builder
	for i := range len(path) {
		c := path[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"<>?#\^{|}`+"`[]", c) >= 0 {
			fmt.Fprintf(&out, "%%%02X", c)
			continue
		}
		out.WriteByte(c)
	}
	return out.String()
}

// content returns the body of the request and its type, or nil if there is none.
func (o *operation) content(args httpcall.Arguments) (io.Reader, string, error) {
	if o.body == nil {
		return nil, "", nil
	}
	payload, given, err := o.payload(args)
	if err != nil || !given {
		return nil, "", err
	}
	switch o.body.encoding {
	case jsonBody:
		return bytes.NewReader(payload), o.body.mediaType, nil
	case formBody:
		text, err := o.body.form(payload)
		return strings.NewReader(text), o.body.mediaType, err
	case multipartBody:
		return o.body.multipart(payload)
	case textBody:
		text, ok := httpcall.ScalarText(payload)
		if !ok {
			return nil, "", httpcall.BadArgument(o.body.argument, "it is a list or an object, and the body is text")
		}
		return strings.NewReader(text), o.body.mediaType, nil
	default:
		data, err := decodeBase64(o.body.argument, payload)
		return bytes.NewReader(data), o.body.mediaType, err
	}
}

func decodeBase64(name string, raw json.RawMessage) ([]byte, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, httpcall.BadArgument(name, "it is not a string of base64")
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, httpcall.BadArgument(name, "it is not base64: "+err.Error())
	}
	return data, nil
}

// form writes application/x-www-form-urlencoded.
func (b *body) form(payload json.RawMessage) (string, error) {
	members, err := httpcall.ParseArguments(payload)
	if err != nil {
		return "", err
	}
	values := url.Values{}
	for name := range members {
		raw, given := members.Get(name)
		if !given {
			continue
		}
		v, err := newValue(raw)
		if err != nil {
			return "", httpcall.BadArgument(name, err.Error())
		}
		f, known := b.fields[name]
		if !known {
			f = formField{style: "form", explode: true}
		}
		addTo(values, name, f.style, f.explode, v)
	}
	return values.Encode(), nil
}

// multipart writes multipart/form-data with a part for each field, or for each item of a
// list.
func (b *body) multipart(payload json.RawMessage) (io.Reader, string, error) {
	members, err := httpcall.ParseArguments(payload)
	if err != nil {
		return nil, "", err
	}
	var out bytes.Buffer
	writer := multipart.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		raw, given := members.Get(name)
		if !given {
			continue
		}
		items := []json.RawMessage{raw}
		if raw[0] == '[' {
			if err := json.Unmarshal(raw, &items); err != nil {
				return nil, "", httpcall.BadArgument(name, err.Error())
			}
		}
		for _, item := range items {
			if err := writePart(writer, name, b.fields[name], item); err != nil {
				return nil, "", err
			}
		}
	}
	if err := writer.Close(); err != nil {
		return nil, "", fmt.Errorf("write the form: %w", err)
	}
	return &out, writer.FormDataContentType(), nil
}

func writePart(writer *multipart.Writer, name string, f formField, raw json.RawMessage) error {
	if _, err := httpcall.HeaderValue(name); err != nil {
		return httpcall.BadArgument(name, err.Error())
	}
	contentType, data := partType(f.mediaType), []byte(flatText(raw))
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)
	disposition := fmt.Sprintf(`form-data; name="%s"`, quoted)
	switch {
	case f.binary:
		var err error
		if data, err = decodeBase64(name, raw); err != nil {
			return err
		}
		// Servers distinguish files from fields by the file name.
		disposition += fmt.Sprintf(`; filename="%s"`, quoted)
		contentType = cmp.Or(contentType, "application/octet-stream")
	case contentType == "" && (raw[0] == '{' || raw[0] == '['):
		contentType = "application/json"
	}
	header := textproto.MIMEHeader{"Content-Disposition": {disposition}}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	part, err := writer.CreatePart(header)
	if err == nil {
		_, err = part.Write(data)
	}
	if err != nil {
		return fmt.Errorf("write the form: %w", err)
	}
	return nil
}

// partType returns the first media type of a list that is no range such as image/*, or "" if
// there is none. It may stand in a header.
func partType(list string) string {
	for one := range strings.SplitSeq(list, ",") {
		if kind, _, err := mime.ParseMediaType(one); err == nil && !strings.Contains(kind, "*") {
			return strings.TrimSpace(one)
		}
	}
	return ""
}

// authenticate adds credentials and the configured headers, and puts the query into the
// URL, before the part that is there.
func (s *Source) authenticate(ctx context.Context, o *operation, request *http.Request, query url.Values, secrets *secretref.Secrets) error {
	for _, name := range slices.Sorted(maps.Keys(s.config.Headers)) {
		value, err := secrets.Expand(ctx, s.config.Headers[name])
		if err != nil {
			return err
		}
		request.Header.Set(name, value)
	}
	if request.Header.Get("Accept") == "" {
		request.Header.Set("Accept", "application/json, */*;q=0.5")
	}
	needed, _ := chooseSecurity(o.security, s.config.Auth)
	for _, scheme := range needed {
		if err := scheme.apply(ctx, request, query, s.config.Auth[scheme.name], secrets); err != nil {
			return err
		}
	}
	request.URL.RawQuery = strings.Trim(query.Encode()+"&"+request.URL.RawQuery, "&")
	return nil
}
