package search

import "strings"

// functionWords carry no meaning of their own and are never indexed. The list
// is the one of Apache Lucene's EnglishAnalyzer.
var functionWords = wordSet(`a an and are as at be but by for if in into is it no
	not of on or such that the their then there these they this to was will with`)

// askingWords say that somebody asks, not what for. A query is searched
// without them unless it holds nothing else.
var askingWords = wordSet(`i me my mine myself we us our ours you your yours he him
	his she her hers its them theirs
	am been being were do does did doing done have has had having can could would
	should may might must shall what which who whom whose how when where why
	some any than so too very just also about here now s t d m re ve ll don im
	let please kindly hi hello hey thanks thank want need needs help like know
	tell think say see give get looking try wondering interested assist assistance
	able sure possible really maybe via regarding
	provide use given best good currently from`)

// synonyms holds, by stem, the stems that stand for the same thing in the
// names of tools. The groups are strict: merely related words (hotel, travel)
// measured worse.
var synonyms = groups(
	"get fetch retrieve obtain read show view",
	"find search lookup query",
	"create add new make generate insert",
	"delete remove drop erase",
	"update edit modify change set",
	"send post submit",
	"list enumerate",
	"calculate compute determine",
	"buy purchase order",
	"book reserve",
	"convert transform translate",
	"run execute invoke",
	"start begin launch",
	"stop end terminate cancel",
	"check verify validate",
	"picture image photo",
	"film movie",
	"song music track",
	"doctor physician",
	"flight plane",
	"file document",
	"folder directory",
	"message email mail",
	"repo repository",
	"car vehicle",
	"job career employment",
	"cost price",
	"db database",
	"config configuration setting",
	"website site web url link page",
)

// tradeSynonyms are as good as the word itself, for those who know the trade.
var tradeSynonyms = groups(
	"history log",
	"undo revert",
	"issue ticket",
	"outdated update",
	"pod kubernetes kubectl",
)

// changing holds, by stem, the words that say that something is to be changed. What
// is as often the name of a thing (commit, request) is not among them.
var changing = stems(`create add new make delete remove update set edit send close put post
	patch generate replace insert drop erase write change modify rename move copy push
	merge install uninstall enable disable cancel stop start restart kill apply publish
	upload save store revert undo reset approve assign deploy submit buy pay`)

// determiners may stand between the words of a phrase.
var determiners = wordSet(`a an the this that these those my your our their its his her some any`)

// questions are words that begin a question about how things are or were: "what did you
// change" asks for no change.
var questions = wordSet(`what which who whose when where why is are was were has have had did does do am`)

func wordSet(words string) map[string]bool {
	s := make(map[string]bool)
	for word := range strings.FieldsSeq(words) {
		s[word] = true
	}
	return s
}

func stems(words string) map[string]bool {
	s := make(map[string]bool)
	for word := range wordSet(words) {
		s[stem(word)] = true
	}
	return s
}

func groups(lines ...string) map[string][]string {
	others := make(map[string][]string)
	for _, line := range lines {
		group := strings.Fields(line)
		for i, word := range group {
			for j, other := range group {
				if i != j {
					others[stem(word)] = append(others[stem(word)], stem(other))
				}
			}
		}
	}
	return others
}
