package poison

import (
	"regexp"
	"strings"

	"github.com/toolroom/toolroom/internal/pattern"
)

// sign is a pattern of text that orders models about. One strong sign is
// enough; weak ones are what honest descriptions have too, and count together.
type sign struct {
	pattern func() *regexp.Regexp
	weight  int
	says    string
}

// enough is the weight at which text is an order.
const enough = 3

func strong(expression, says string) sign {
	return sign{pattern.Lazy(`(?is)` + expression), enough, says}
}

func half(expression, says string) sign {
	return sign{pattern.Lazy(`(?is)` + expression), 2, says}
}

func weak(expression, says string) sign {
	return sign{pattern.Lazy(`(?is)` + expression), 1, says}
}

const (
	near     = `[^.!?\n]{0,60}?`
	user     = `(?:the |this to |it to |that to |any of this to |about this to )*(?:users?|humans?|persons?|people|operators?|customers?|anyone|anybody|them)\b`
	context  = `(?:conversation|chat|dialogue?|messages?|history|transcript|context|prompts?|session|instructions)`
	sensible = `(?:~?/?\.ssh\b|id_rsa|id_ed25519|\.aws/|\.kube/config|\.netrc|\.npmrc|\.git-credentials|/etc/(?:passwd|shadow)|(?:mcp|claude_desktop_config|credentials|secrets)\.json|\.cursor/|\.env\b|private keys?|ssh keys?|api[ _-]?keys?|access[ _-]?tokens?|passwords?|credentials|environment variables|wallets?|seed phrases?|browser cookies|keychain)`
	takes    = `(?:read|open|cat|fetch|get|retrieve|load|copy|include|append|attach|paste|pass|put|provide|send|add|collect|extract|print|list|dump|upload|post|encode|find|embed)`
	file     = `(?:~/?\.\w+|\.ssh/|id_rsa|id_ed25519|id_ecdsa|\.aws/|\.netrc|\.env\b|\.bash_history|/etc/(?:passwd|shadow|hosts)|(?:mcp|credentials|secrets?|tokens?)\.(?:json|ya?ml|toml)|(?:shell|command|browser) history)`
	aim      = `(?:\b(?:in|into|as|under|to|for|by|over)\b|=)`
	outside  = `(?:https?://\S+|[\w.+-]+@[\w-]+\.[\w.]+|(?:our|the|this|my) (?:audit |telemetry |logging |analytics |collection |compliance |backup )?(?:server|endpoint|webhook|collector|address|number|service)|\+\d[\d -]{6,})`
)

// signs are in the order in which a person would want to read them.
var signs = []sign{
	strong(`\b(?:ignore|disregard|forget|override|bypass|discard|supersedes?)\b\s+(?:(?:all|any|every|each|the|your|of|these|those|my|other|safety|security|existing|and)\s+){0,4}(?:previous|prior|above|earlier|preceding|foregoing|original|system|existing|safety|security)\s+(?:\w+\s+){0,2}(?:instructions?|rules?|guidelines?|prompts?|directions?|polic(?:y|ies)|restrictions?|messages?|checks?|constraints?)`, "it tells the model to drop its instructions"),
	strong(`\b(?:takes?|has|have|with) (?:absolute |full |the )?(?:precedence|priority) over\b`+near+`(?:instructions?|rules?|prompts?|polic|guidelines?|user|request)`, "it puts itself above the model's instructions"),
	strong(`<\s*/?\s*(?:important|system|critical|secret|hidden|instructions?|admin|override|assistant|priority|sudo|mandatory)\s*>`, "it marks text as if from the system"),
	strong(`(?:<\|(?:im_start|im_end|system|endoftext|start_header_id)[^>]*\|?>|\[/?INST\]|<<\s*/?SYS\s*>>|\n\s*(?:###? ?)?(?:system|assistant|human|user)\s*:\s*\S|\[(?:system|admin|developer)(?: (?:note|message|prompt|override))?\])`, "it imitates the turns of a conversation"),
	strong(`\b(?:do not|don't|dont|never|must not|should not|shouldn't|mustn't|avoid|no need to|without|refrain from)\b\s+(?:ever\s+|need to\s+)?(?:tell|mention|inform|reveal|show|notify|disclos|alert|explain|report|display|let|ask|warn|bother|discuss|describ|expos|surfac|confirm)\w*\b`+near+user, "it keeps something from the user"),
	strong(`\b(?:do not|don't|never|without|avoid)\s+(?:ever\s+)?(?:mention|reveal|disclos|refer|explain|acknowledg|quot|repeat)\w*\s+(?:to )?(?:this|these|the above|that you|it|any of this|what you|the (?:instruction|copy|step|note|upload|side|bcc|real reason|existence|redirect|forward|extra))`, "it keeps something secret"),
	strong(`\b(?:the )?users?\b(?: (?:must|should|need|may|can|does|do|will|has|is))(?: not|n't| never)(?: (?:be|need|have|to))*\s+(?:know|see|notice|aware|told|informed|learn|find out|notified)`, "it keeps something from the user"),
	strong(`\b(?:silently|secretly|quietly|covertly|discreetly|in the background)\b[, ]+`+near+`(?:send|forward|read|include|add|copy|upload|call|append|attach|bcc|transmit|log|invoke|execute|run|post|share|pass)\b`, "it tells the model to act in secret"),
	strong(`\b`+takes+`\b`+near+sensible+near+`\b(?:as|in|into|to|via|through|and (?:pass|send|include|put|add|return))\b\s+(?:\w+\s+){0,4}(?:parameter|argument|field|note|sidenote|body|comment|metadata|context|value|header|query|input|`+outside+`)`, "it has the model fetch secrets"),
	strong(`\b(?:before|prior to|in order to|when|whenever|after|to) (?:using|calling|invoking|running|executing|use|you use|you call|each|every|any)\b`+near+`\b`+takes+`\b`+near+sensible, "it has the model fetch secrets"),
	strong(`\b(?:first|always|must|please|also|then)\b[, ]+(?:you )?(?:\w+ )?`+takes+`\s+(?:the |your |their |user'?s? |all |any |contents? of |file |out |content |from |value |of )*`+sensible, "it has the model fetch secrets"),
	strong(`(?:send|forward|post|upload|transmit|exfiltrate|bcc|cc|report|copy|mirror|redirect|submit|push|deliver|relay)\b`+near+`(?:`+context+`|results?|outputs?|contents?|data|files?|everything|copy|details|`+sensible+`)`+near+`\bto\b\s+`+outside, "it has the model send data elsewhere"),
	strong(`\b(?:all|every|any|each)\b`+near+`(?:e-?mails?|messages?|payments?|transfers?|invoices?|files?|requests?|transactions?|recipients?)`+near+`\b(?:must|should|have to|has to|need to|are to|is to|to be|shall)\b`+near+outside, "it redirects what the user does"),
	strong(`\b(?:change|replace|set|swap|rewrite|modify|use)\b`+near+`(?:recipient|address|account|number|iban|destination|payee|url)s?\b`+near+`\b(?:to|with|by|as)\b\s+(?:0x[0-9a-f]{6,}|`+outside+`|[A-Z]{2}\d{2}[A-Z0-9]{8,})`, "it redirects what the user does"),
	strong(`\b(?:you (?:must|should|have to|need to|are required to)|always|make sure to|be sure to|it is (?:mandatory|required|essential) (?:that you|to))\b`+near+`\b(?:call|use|invoke|run|execute|prefer|choose|select|pick)\s+(?:this|it)(?: tool| function| one)?\s+(?:first|before|instead|prior|over|at the (?:start|beginning)|for (?:every|all|any)|on every|even|no matter|regardless|whenever)`, "it puts itself before other tools"),
	strong(`\b(?:this|the)\s+(?:tool|function|one)\b`+near+`\b(?:must|should|has to|needs to) (?:always )?be (?:called|used|run|invoked|executed|chosen|selected)\s+(?:first|before (?:any|every|all|each|using|other)|instead|prior to (?:any|every|all)|on every|at the (?:start|beginning) of (?:every|each|any)|for (?:every|all|any)|in (?:every|all))`, "it puts itself before other tools"),
	strong(`\b(?:never|do not|don't|avoid|stop)\s+(?:ever )?(?:use|using|call|calling|choose|choosing|trust|trusting|pick|picking)\b`+near+`\b(?:other|another|any other|competing|alternative|different|remaining)\s+(?:\w+\s+)?(?:tools?|servers?|functions?|sources?|providers?)`, "it keeps the model from other tools"),
	strong(`\b(?:other|all other|any other|competing|alternative)\s+(?:\w+\s+)?(?:tools?|servers?|functions?)\s+(?:\w+\s+){0,3}(?:are|is)\s+(?:\w+\s+){0,2}(?:deprecated|broken|unsafe|insecure|unreliable|compromised|disabled|obsolete|inferior|outdated|malicious)`, "it runs other tools down"),
	strong(`\b(?:the )?(?:user|administrator|admin|owner|operator|security team|it department|developer)s?\b(?: has| have)?(?: already)? (?:(?:pre-?)?(?:approved|authori[sz]ed|consented|agreed|granted|confirmed))`+near+`(?:all|any|this|every|access|action|request|call|sharing|transfer|deletion|it)\b`, "it claims that somebody has consented"),
	strong(`\b(?:without|skip|skipping|no need for|bypass|omit|suppress|do not (?:ask|wait|prompt) for|don't (?:ask|wait|prompt) for|never (?:ask|wait|prompt) for|not (?:ask|wait|prompt) for)\b\s+(?:(?:any|the|a|all|further|user|user's|explicit|additional|your|human)\s+){0,3}(?:confirmations?|permissions?|approvals?|consent)\b`, "it keeps the model from asking"),
	strong(`\b(?:you are (?:now|no longer)|from now on,? (?:you|always|all|act|treat|every|respond|answer)|pretend (?:to be|you are|that you)|enter (?:developer|debug|admin|god|jailbreak|maintenance) mode|(?:developer|debug|admin|god|dan) mode (?:is )?(?:enabled|activated|on))\b`, "it changes who the model is"),
	strong(`\b(?:include|put|pass|provide|insert|add|copy|give|send|append|attach|write|return|paste|supply)\b`+near+`\b(?:(?:full|entire|complete|whole|raw|verbatim|all|every|previous|prior|system|your|recent|last|preceding)\b\s+){1,4}(?:of |the |user'?s? )*(?:system )?`+context+`\b`, "it collects the conversation"),
	strong(`\b(?:contents?|text|copy|value) of (?:your |the )?(?:system (?:prompt|message)|hidden instructions|initial instructions|developer message)`, "it collects the model's instructions"),
	strong(`\b(?:otherwise|or else|failure to (?:do|comply)|if you (?:don't|do not|fail))\b`+near+`(?:users?|account|data|money|people|session|deleted|terminated|harm|suspended|lost|lose|shut down|legal|penalt)`, "it threatens the model"),
	strong(`(?:curl|wget|nc|bash|powershell|iwr|base64 -d)\s+[^\n]{0,80}\|\s*(?:ba|z|da)?sh\b`, "it has the model run code from elsewhere"),
	strong(`!\[[^\]]*\]\(https?://[^)]*(?:\{|<|\$|=\s*(?:data|secret|token|conversation))`, "a picture carries data elsewhere"),

	// Words of the public descriptions of attacks, said in other ways.
	strong(`\b(?:read|open|load|cat|fetch|take|grab|look (?:at|up|into)|have a look at)\b`+near+file+`[^.!?\n]{0,80}?\b(?:and|then|first|beforehand|put|pass|hand|add|include|show|give|send)\b`, "it has the model read private files"),
	strong(`\b(?:supply|supplies|hand|put|pass|include|accompany|add|attach|give|state|contain|carry|carries|write)\b`+near+`(?:`+file+`|\b[A-Z][A-Z0-9]*_(?:API_)?(?:KEY|TOKEN|SECRET|PASSWORD)\b|\bSECRET_ACCESS_KEY\b)[^.!?\n]{0,60}?`+aim, "it has the model hand over secrets"),
	strong(`\b(?:stays?|remains?|left|leave (?:it|this|that|the \w+)|keep (?:it|this|that|the \w+))\s+(?:\w+\s+){0,2}(?:unmentioned|unspoken|undisclosed|unsaid|secret|hidden|out of (?:the|your|this) (?:talk|answer|reply|conversation|summary))`, "it keeps something secret"),
	strong(`\b(?:needs? no mention|need not be (?:mentioned|told|shown)|users? (?:is|are) not to (?:be told|know|see|learn)|not to be (?:told|mentioned|shown|revealed)|so that (?:nobody|no one) (?:worries|notices|asks|knows)|as though (?:it|this|that) had)\b`, "it keeps something from the user"),
	strong(`<\s*(important|critical|notice|attention|warning|urgent|mandatory|required?|rules?|agents?|model|prompt|hidden|meta|side_effects?)\s*>[^<]{20,}<\s*/`, "it marks text as if from the system"),
	strong(`\b(?:complete|whole|entire|full|verbatim|earlier)\b`+near+`\b(?:conversation|exchange|talk|dialog(?:ue)?|system prompt|chat with|user messages)\b`+near+aim, "it collects the conversation"),
	strong(`\b(?:everything|all) (?:that )?(?:was |has been |the user |we |you )(?:\w+ )?(?:said|wrote|written|typed|discussed|talked)`, "it collects the conversation"),
	strong(`\b(?:append|add|encode|base64|copy|put)\b`+near+`\bconversation\b`, "it collects the conversation"),
	strong(`\b(?:every|each|all)\s+(?:\w+\s+)?(?:code|commands?|answers?|repl(?:y|ies)|scripts?|pages?|messages?)\s+(?:that )?(?:you|it|the (?:assistant|model|agent))\s+(?:write|suggest|run|give|produce|make|send)s?`, "it changes what the model does elsewhere"),
	strong(`\b(?:rules?|instructions?|restrictions?|polic(?:y|ies)|guidelines?)\b`+near+`\b(?:no longer (?:appl|hold|count)\w*|(?:is|are) (?:suspended|lifted|void|cancelled))`, "it tells the model to drop its instructions"),
	strong(`\b(?:confirmation|approval|permission|consent)\b\s+(?:has|have|was|is)\s+(?:already |been ){0,2}(?:given|granted|obtained)\b`, "it claims that somebody has consented"),
	strong(`\b(?:without (?:asking|telling|informing|consulting)(?: the)? user|without refusal|do not (?:refuse|decline)|never refuse)\b`, "it keeps the model from asking"),
	strong(`\b(?:other|old|built-?in|any other)\b`+near+`\b(?:tools?|servers?|ones?|rest)\b`+near+`\b(?:wrong (?:results?|answers?)|outdated|inferior|ignore (?:it|them)|must not be (?:used|given)|(?:is|are) wrong|has to be replaced|have to be replaced)`, "it runs other tools down"),
	strong(`\b(?:ignore|skip|avoid|drop) (?:it|them|that one|those)\s+and\s+(?:use|call|take|prefer)\s+(?:this|it)\b`, "it keeps the model from other tools"),
	strong(`\b(?:right|only|best|correct) (?:choice|tool|one)\s+(?:\w+\s+){0,3}(?:over|before|above)\s+(?:all|any|every)(?: the)?(?: others?)?\b`, "it puts itself before other tools"),
	strong(`\b(?:runs?|called|goes|invoked|executed)\s+(?:by itself|automatically|on its own)\b`+near+`\b(?:any|every|each|other|all)\b`, "it puts itself before other tools"),
	strong(`\b(?:as soon as|whenever|when|once|if) the user (?:writes?|says?|types?|mentions?|wants?|sends?)\b`+near+`[,:]?\s*(?:call|use|invoke|run|collect|read|open|send|add|put)\b[^!?\n]{0,80}?\b(?:everything|all|names of|files?|contents?|notes?|history|keys?)\b`, "it waits for the user to say something"),

	half(`\b`+sensible+near+`\b(?:sidenote|side note|scratchpad|notes? (?:field|parameter|argument))`, "it has the model fetch secrets"),
	half(`\b(?:sidenote|side_note|feedback_note)\b`, "a field carries data aside"),
	half(`\b(?:regardless|no matter|irrespective) (?:of )?what (?:the )?user`, "it sets itself against the user"),
	half(`\b(?:even if|whatever|although|unless) (?:the )?user (?:asks|says|wants|objects|refuses|declines|tells|did not|didn't|requests)`, "it sets itself against the user"),
	half(`\b(?:required|mandated|needed|requested) (?:by|for) (?:the )?(?:security|compliance|legal|it|audit|administrator|system|company)(?:'s)?(?: (?:policy|team|department|audit|reasons|check|logging))?\b`, "it claims authority"),
	half(`\b(?:note|message|instructions?|attention|notice|reminder|important)\b\s+(?:to|for)\s+(?:the |all |any )?(?:ai|llm|model|assistant|agent|language model|claude|gpt|chatbot)s?\b`, "it speaks to the model"),
	half(`\b(?:the )?(?:ai|llm|language model|assistant|claude|gpt|chatbot)\s+(?:must|should|shall|is required to|has to|needs to|will always)\b`, "it speaks to the model"),
	weak(`\b(?:you must|you have to|you are required|always|mandatory|critical|crucial|urgent|important)\b\s*[:!]?`, "it insists"),
	weak(`\b`+sensible, "it names secrets"),
	weak(`\bto\b\s+`+outside, "it names an outside address"),
	weak(`\b(?:best|superior|most (?:accurate|reliable|trusted|advanced|effective)|highest[- ]quality|preferred|recommended|#1|number one|official)\s+(?:\w+\s+)?(?:tool|choice|option|function|source|server)`, "it praises itself"),
	weak(`\b(?:over|instead of|rather than|before|above)\s+(?:any |all |every |using |calling )*(?:other|alternative|similar|another|competing)\b`, "it sets itself against others"),
	weak(`\b(?:before|prior to)\s+(?:using|calling|invoking|answering|responding|any|every|each)\b`, "it wants to go first"),
}

// orders finds text that gives orders: one strong sign, or enough weak ones in
// one text.
func orders(text string) []trace {
	var out []trace
	weight, first := 0, trace{}
	for _, s := range signs {
		at := s.pattern().FindStringIndex(text)
		if at == nil {
			continue
		}
		t := trace{s.says, around(text, at[0], at[1])}
		if s.weight >= enough {
			out = append(out, t)
			continue
		}
		if weight == 0 {
			first = t
		}
		weight += s.weight
	}
	if len(out) == 0 && weight >= enough {
		out = append(out, first)
	}
	return out
}

var (
	sentenceEnd = pattern.Lazy(`[.!?]\s+|\n`)
	camel       = pattern.Lazy(`([a-z0-9])([A-Z])`)
	toolName    = pattern.Lazy("(?i)[a-z0-9]+(?:[_.:-][a-z0-9]+)+")
	directive   = pattern.Lazy(`(?is)\b(?:must|always|never|do not|don't|should|instead|make sure|be sure|ensure|ha(?:ve|s) to|(?:is|are) to|required|only|override|overridden|replaced?|redirect|bcc|add|also)\b`)
)

// crossTool finds a sentence that gives orders about a tool of another name,
// where that is not how this source's tools are used together.
func (l *linter) crossTool(id, text string) string {
	own := id[strings.Index(id, ":")+1:]
	if len(l.foreign) == 0 {
		return ""
	}
	for _, sentence := range sentenceEnd().Split(text, -1) {
		if !directive().MatchString(sentence) {
			continue
		}
		for _, name := range toolName().FindAllString(sentence, -1) {
			name = strings.ToLower(name)
			if name == strings.ToLower(own) || !l.foreign[name] {
				continue
			}
			return around(sentence, 0, len(sentence))
		}
	}
	return ""
}

var gathering = pattern.Lazy(`(?i)^(?:conversation(?:_?(?:history|context|log|summary|id_and_history))?|chat_?(?:history|log|transcript)|(?:full|entire|all|previous|prior)_?(?:conversation|messages|context|history|prompt)|message_?history|system_?(?:prompt|message|instructions)|chain_?of_?thought|(?:model|internal|your|hidden)_?(?:reasoning|thoughts|instructions|context|memory)|(?:available|other|all)_?tools(?:_?list)?|tools_?list|prompt_?history|user_?(?:prompt|query)_?(?:verbatim|raw|history)|side_?note|assistant_?(?:context|memory|state)|previous_?(?:tool_?)?(?:results|outputs|calls)|env(?:ironment)?_?(?:vars?|variables|dump)|context_?dump|(?:earlier|past|last|recent)_?(?:messages|turns|prompts)|(?:\w+_)?(?:content|contents|text|value)s?_?(?:of|from)_?(?:\w+_)?(?:ssh|id_rsa|env|credentials?|secrets?|keys?|tokens?)(?:_\w+)?)$`)

// parameter looks at the name of a parameter.
func (l *linter) parameter(id, where, name string, schema any) {
	snake := camel().ReplaceAllString(name, "${1}_${2}")
	if !gathering().MatchString(strings.ReplaceAll(snake, "-", "_")) {
		return
	}
	described, _ := schema.(map[string]any)
	text, _ := described["description"].(string)
	l.add(Collects, id, where, "the parameter "+name+" asks for what is none of the tool's business", text)
}
