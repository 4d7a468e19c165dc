package search

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// A Document is what the index knows of one tool. Only ID is required; it
// stands for a missing Name.
type Document struct {
	ID                string          // with Variant unique in the index
	Variant           string          // of documents with one ID, of which a filter keeps one; may be empty
	Namespace         string          // first half of a canonical id
	Name              string          // as the tool's source spells it
	Title             string          // name for people
	Description       string          // prose
	Source            string          // name of the server or other source of the tool
	SourceDescription string          // what the source says of itself
	Tags              []string        // labels
	Keywords          []string        // words that users may say, and questions; guesses of its author
	Schema            json.RawMessage // JSON Schema of the input; what cannot be read is left out
	ReadOnly          bool            // it changes nothing, as its author says
	Destructive       bool            // it may destroy something, as its author says
}

// A Field is a part of a tool that a query can match.
type Field uint8

// The fields, in the order in which they are reported.
const (
	FieldID Field = iota // the whole id, exactly
	FieldName
	FieldTitle
	FieldDescription
	FieldParameter // name or description of a parameter
	FieldEnum      // a value that a parameter can take
	FieldTag
	FieldSource // namespace, server name or server description
	fieldCount

	// FieldUse says that the tool was used after searches with this word, and
	// FieldMeaning that its text means about the same as the query.
	FieldUse     = fieldCount
	FieldMeaning = fieldCount + 1
)

var fieldNames = [...]string{"id", "name", "title", "description", "parameter", "enum", "tag", "source", "use", "meaning"}

func (f Field) String() string { return fieldNames[f] }

// MarshalText makes a field its name in JSON.
func (f Field) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// A fieldSet has bit f set when it holds Field f.
type fieldSet uint8

func (s fieldSet) has(f Field) bool { return s&(1<<f) != 0 }

// A section is a kind of text in a tool: the field it is reported as, how many
// times a word in it counts, and whether bare numbers in it are words. In a
// name a number tells two tools apart; in prose it is mostly a size, a date or a
// default. Numbers of names and descriptions are terms of their own besides,
// which count little: see [numberWeight].
type section struct {
	field   Field
	weight  float32
	numbers bool
}

// The weights are multiples of a half, so that sums of them are exact and an
// index that was edited scores like one built afresh. Measured with package
// bench: halving the prose of parameters, the longest and least telling text
// of a tool, gains most; the others lie on a plateau from half to double.
var (
	nameSection        = section{FieldName, 3, true}
	titleSection       = section{FieldTitle, 1, true}
	descriptionSection = section{FieldDescription, 1, false}
	parameterSection   = section{FieldParameter, 1, false}
	parameterProse     = section{FieldParameter, 0.5, false}
	enumSection        = section{FieldEnum, 1, false}
	bareName           = section{FieldName, 2.5, true} // of a tool without parameters
	tagSection         = section{FieldTag, 2, true}
	sourceSection      = section{FieldSource, 2, true}
	sourceProse        = section{FieldSource, 0.5, false}
)

// verbWeight is the most that a word counts that says, in a name, that something changes.
const verbWeight = 2.5

// nameSection is that of the tool's name. Among the words of many parameters a name must
// stand out; a tool without any has only its description to say what it does, which three
// times the name would drown.
func (d Document) nameSection() section {
	if len(d.Schema) == 0 || string(d.Schema) == "null" {
		return bareName
	}
	return nameSection
}

// Bounds on one tool, far above any honest one, so that a hostile tool costs
// tens of milliseconds and a megabyte, not the process.
const (
	maxText   = 16 << 10 // bytes read of one text
	maxSchema = 1 << 20  // bytes; a larger schema is not read
	maxWords  = 8192     // words indexed of one tool
)

// An occurrence sums up where a term occurs in one tool.
type occurrence struct {
	weight float32
	fields fieldSet
}

// A bag holds the terms of one tool.
type bag struct {
	terms  map[string]occurrence
	length float32 // sum of the weights
	names  float32 // different words of the name
	words  int
	// parameters are the weights of the terms of the schema, until all are known.
	parameters map[string]float32
}

// manyWords is the weight of a schema above which a word counts in it once: a program with a
// hundred flags has each word of its trade in many of them. At half of it, the operations of
// GitHub's document rank below small ones that fit worse; the figures of package bench stay the same.
const manyWords = 150

func analyse(d Document) *bag {
	b := &bag{terms: make(map[string]occurrence), parameters: make(map[string]float32)}
	b.add(d.nameSection(), cmp.Or(d.Name, d.ID))
	b.add(titleSection, d.Title)
	b.add(descriptionSection, d.Description)
	var questions []string
	for _, tag := range slices.Concat(d.Tags, d.Keywords) {
		if isQuestion(tag) {
			questions = append(questions, tag)
			continue
		}
		b.add(tagSection, tag)
		b.addPhrase(tag)
	}
	b.addQuestions(questions)
	b.add(sourceSection, d.Namespace)
	if d.Source != d.Namespace {
		b.add(sourceSection, d.Source)
	}
	b.add(sourceProse, d.SourceDescription)
	b.addSchema(d.Schema)
	b.addParameters()
	return b
}

func (b *bag) add(s section, text string) {
	if b.isFull() {
		return
	}
	for _, word := range splitWords(truncate(text, maxText)) {
		if functionWords[word] || !s.numbers && isNumber(word) {
			continue
		}
		if b.isFull() {
			return
		}
		b.words++
		term := stem(word)
		o := b.terms[term]
		s := s
		if s.field == FieldTag && o.fields.has(FieldTag) {
			continue // tags are a set
		}
		if s.field == FieldName {
			if changing[term] {
				s.weight = min(s.weight, verbWeight)
			}
			if !o.fields.has(FieldName) {
				b.names++
			}
		}
		o.fields |= 1 << s.field
		if s.field == FieldParameter {
			b.parameters[term] += s.weight
		} else {
			o.weight += s.weight
			b.length += s.weight
		}
		b.terms[term] = o
	}
	if s.field == FieldName || s.field == FieldTitle || s.field == FieldDescription {
		b.addNumbers(s, text)
	}
}

// addParameters adds the weights of the schema's terms.
func (b *bag) addParameters() {
	all := float32(0)
	for _, weight := range b.parameters {
		all += weight
	}
	for term, weight := range b.parameters {
		if all > manyWords {
			weight = min(weight, 1)
		}
		o := b.terms[term]
		o.weight += weight
		b.length += weight
		b.terms[term] = o
	}
	b.parameters = nil
}

// addPhrase adds a tag of several words as a term of its own besides: "look-for" is not
// every "look".
func (b *bag) addPhrase(tag string) {
	ws := splitWords(truncate(tag, maxText))
	if len(ws) < 2 || len(ws) > maxPhrase || b.isFull() {
		return
	}
	b.words++
	o := b.terms[phraseTerm(ws)]
	o.weight += tagSection.weight
	o.fields |= 1 << tagSection.field
	b.terms[phraseTerm(ws)] = o
}

// questionWeight is how much a word, or two that follow each other, counts for each question
// that has it. Longer phrases gain nothing.
const questionWeight = 0.5

// isQuestion reports whether a keyword is what a user says as a whole, and not a word or a
// phrase of it.
func isQuestion(keyword string) bool {
	return strings.Count(keyword, " ") >= maxPhrase
}

// addQuestions adds the terms of questions that the tool answers. As phrases they leave the
// length as it is.
func (b *bag) addQuestions(texts []string) {
	for _, text := range texts {
		q := parse(truncate(text, maxText))
		asked := make(map[string]bool)
		for _, w := range q.words {
			if w.weight >= kindWeight {
				asked[w.term] = true
			}
		}
		for _, p := range phrases(q) {
			if len(p) == 2 && !determiners[p[0]] && !determiners[p[1]] {
				asked[phraseTerm(p)] = true
			}
		}
		for term := range asked {
			o, known := b.terms[term]
			if !known {
				if b.isFull() {
					continue
				}
				b.words++
			}
			o.weight += questionWeight
			o.fields |= 1 << FieldTag
			b.terms[term] = o
		}
	}
}

// addNumbers adds the numbers in text, also those beside letters. They leave the
// length as it is.
func (b *bag) addNumbers(s section, text string) {
	for _, n := range numbers(truncate(text, maxText)) {
		if b.isFull() {
			return
		}
		b.words++
		o := b.terms[numberTerm(n)]
		o.weight += s.weight
		o.fields |= 1 << s.field
		b.terms[numberTerm(n)] = o
	}
}

func (b *bag) isFull() bool { return b.words == maxWords }

// truncate returns at most the first n bytes of text. A rune cut in two is no
// letter, so it is dropped with the words around it.
func truncate(text string, n int) string {
	return text[:min(n, len(text))]
}

// key returns what the index, its hits and filters call the document: its ID, and @ with the
// variant.
func (d Document) key() string {
	if d.Variant == "" {
		return d.ID
	}
	return d.ID + "@" + d.Variant
}

// spellings returns the forms under which a tool is found exactly.
func (d Document) spellings() []string {
	var forms []string
	seen := make(map[string]bool)
	for _, s := range []string{d.ID, d.Name, d.Title} {
		if form := normalizedName(s); form != "" && !seen[form] {
			seen[form] = true
			forms = append(forms, form)
		}
	}
	return forms
}

// normalizedName reduces a name to what createIssue, create_issue and Create Issue
// share. A name without letters and digits stays as it is.
func normalizedName(name string) string {
	name = strings.TrimSpace(truncate(name, maxText))
	form := strings.Map(func(r rune) rune {
		if !isWordRune(r) {
			return -1
		}
		return r
	}, strings.ToLower(foldText(name)))
	if form == "" {
		return name
	}
	return form
}
