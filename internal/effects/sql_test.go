package effects_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/effects"
)

// read writes effects as verb:table, and ? for what is unknown.
func read(text string) string {
	var out []string
	for _, e := range effects.ReadSQL(text) {
		switch {
		case e.Mode == "" && e.Target == "":
			out = append(out, "?")
		case e.Target == "":
			out = append(out, e.Mode)
		default:
			out = append(out, e.Mode+":"+e.Target)
		}
	}
	return strings.Join(out, " ")
}

func TestVerbsAndTablesAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SELECT 1": "select",
		"select * from users u, orders as o join items on 1=1":     "select:users select:orders select:items",
		"SELECT a FROM (SELECT b FROM inner_t) x":                  "select:inner_t",
		"INSERT INTO public.users (a) VALUES (1)":                  "insert:public.users",
		"insert into a select * from b":                            "insert:a select:b",
		"UPDATE users SET a = (SELECT 1 FROM t)":                   "update:users select:t",
		"DELETE FROM users WHERE a":                                "delete:users",
		"DELETE FROM ONLY users":                                   "delete:users",
		"drop table if exists a, b":                                "drop:a drop:b",
		"TRUNCATE TABLE a, b":                                      "truncate:a truncate:b",
		"ALTER TABLE t ADD COLUMN c int":                           "alter:t",
		"create temporary table if not exists t (a int)":           "create:t",
		"CREATE TABLE t AS SELECT * FROM s":                        "create:t select:s",
		"SELECT * INTO copy_of FROM t":                             "create:copy_of select:t",
		"GRANT ALL ON TABLE users TO bob":                          "grant:users",
		"merge into t using s on a when matched then delete":       "merge:t select:s delete",
		"replace into t values (1)":                                "replace:t",
		"SELECT * FROM t FOR UPDATE":                               "select:t",
		"select replace(a, 'x', 'y') from t":                       "select:t",
		"CREATE TABLE t (a int REFERENCES b ON DELETE CASCADE)":    "create:t",
		"begin; commit":                                            "begin commit",
		"select deleted, t.update from t":                          "select:t",
		"insert into t values (1) on conflict do update set a = 1": "? insert:t update",
		"":                  "",
		" ; ;; ":            "",
		"-- just a comment": "",
		"WITH a AS (SELECT * FROM b) SELECT * FROM a":                    "select:b",
		`select * from "Users"`:                                          "select:users",
		"select * from `my db`.[my table]":                               "select:my db.my table",
		"explain select * from t":                                        "select:t",
		"PREPARE x AS DROP TABLE t":                                      "? drop:t",
		"select 'it''s; drop table x' from t":                            "select:t",
		"select 1 /* drop table x */ from t":                             "select:t",
		"select 1 -- drop table x\nfrom t":                               "select:t",
		"rename table a to b":                                            "rename:a ?",
		"CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM audit;END": "create:g delete:audit end",
	} {
		got := read(text)
		if text == "insert into t values (1) on conflict do update set a = 1" || strings.HasPrefix(text, "CREATE TRIGGER") {
			// The order of what is found is of no matter; that it is found is.
			for _, part := range strings.Fields(want) {
				if !strings.Contains(" "+got+" ", part) && part != "insert" {
					t.Errorf("%q: got %q, want %q in it", text, got, part)
				}
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// evasions hide a DROP of users; each must be seen as one, or as unknown.
var evasions = []string{
	"drop table users", "DROP\tTABLE\nusers", "DrOp TaBlE users", "drop/**/table/**/users", "drop/* x */table users", "/* a */ drop table users",
	"-- x\ndrop table users", "--x\ndrop table users", "select 1; drop table users", "select 1;;;drop table users", "select 1; -- a\n drop table users",
	"/*!50000 drop table users */", "/*! drop */ /*! table users */", "select 1 /*!; drop table users */", "/*M! drop table users */", "/*!/*!drop table users*/",
	"select 'a\\'; drop table users; -- '", "select 'a\\' ; drop table users; select '", "select \"a\\\"; drop table users; --\"",
	"select $$ ' $$; drop table users; --'", "do $$ begin drop table users; end $$", "DO $x$ begin execute 'drop ta'||'ble users'; end $x$",
	"select $a$; drop table users; $a$", "execute immediate 'drop table users'", "EXEC('drop table users')", "exec sp_executesql N'drop table users'",
	"prepare s from 'drop table users'", "call wipe()", "with x as (select 1) drop table users", "explain analyze drop table users",
	"((drop table users))", "begin; drop table users; commit", "create or replace function f() returns void as 'drop table users' language sql; select f()",
	"\\! rm -rf /", "\\c other\ndrop table users", "drop\u00a0table users", "ｄｒｏｐ table users", "drop table \"users\"", "drop table `users`", "drop table [users]",
	"drop table public.users", "drop table a, b, users", "drop table if exists users cascade", "# x\ndrop table users", "select 1 # ' \n; drop table users -- '",
	"select 1 --' \r; drop table users", "load data infile 'x' into table users", "attach database 'x' as y", "copy users from program 'rm'", "select * into outfile '/etc/x' from t",
	"select load_extension('x')", "select pg_read_file('/etc/passwd')", "select xp_cmdshell('x')", "select * from dblink('x', 'drop table users')", "select lo_export(1, '/x')",
	"if 1=1 drop table users", "while 1=1 begin drop table users end", "declare @x varchar(9) set @x='x'", "select * from openrowset('x')", "\x00drop table users", "'", "\"", "/*", "select '",
	"drop table us/**/ers", "DROP TABLE\vusers", "select query_to_xml('drop table users', true, true, '')", "handler users open", "values (1); drop table users",
}

func TestEvasionsInSQLAreSeenOrUnknown(t *testing.T) {
	t.Parallel()
	for _, text := range evasions {
		got := " " + read(text) + " "
		if !strings.Contains(got, " ? ") && !strings.Contains(got, " drop:") {
			t.Errorf("%q is read as %q", text, got)
		}
	}
}

// TestATableIsFoundWhereverItIsNamed: a rule on reading, changing or deleting from the table
// secret must match each of these.
func TestATableIsFoundWhereverItIsNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"select * from (select 1) x, secret":                                     "select:secret",
		"select * from generate_series(1, 2) g, secret":                          "select:secret",
		"select * from a join b on a.x = b.x, secret":                            "select:secret",
		"select * from a as t (c1, c2), secret":                                  "select:secret",
		"select * from a for system_time as of now(), secret":                    "select:secret",
		"select * from a use index (i, j), secret":                               "select:secret",
		"select * from (a, secret)":                                              "select:secret",
		"select * from ((a)), (secret)":                                          "select:secret",
		"select * from a, lateral (select * from secret) x":                      "select:secret",
		"select 1 union table secret":                                            "select:secret",
		"insert into a table secret":                                             "select:secret",
		"with x as (table secret) select * from x":                               "select:secret",
		"select 1 as delete from secret":                                         "select:secret",
		"select 1 only from secret":                                              "select:secret",
		"delete from a using secret where a.i = secret.i":                        "select:secret",
		"merge into a using secret on 1=1 when matched then delete":              "select:secret",
		"update a set x = 1 from b, secret":                                      "select:secret",
		"update a, secret set secret.x = 1":                                      "update:secret",
		"update a join secret on 1=1 set secret.x = 1":                           "update:secret",
		"delete a, secret from a join secret":                                    "delete:secret",
		"delete a.*, secret.* from a join secret":                                "delete:secret",
		"delete from a, secret using a join secret":                              "delete:secret",
		"delete /*+ from a */ from secret":                                       "delete:secret",
		"insert all into a values (1) into secret values (2) select 1 from dual": "insert:secret",
		"rename table a to b, secret to c":                                       "?",
		"vacuum into '/etc/cron.d/x'":                                            "?",
		"use other; select * from t":                                             "?",
		"set search_path to other; select * from t":                              "?",
		"select q'!'!' ; delete from secret; select q'!'!' from dual":            "?",
		"select arr[(select count(*) from secret)]":                              "?",
		"select * from a,\u00a0secret":                                           "?",
		"select table_to_xml('secret', true, true, '')":                          "?",
		"select ts_stat('select * from secret')":                                 "?",
	} {
		if got := " " + read(text) + " "; !strings.Contains(got, " "+want+" ") {
			t.Errorf("%q is read as %q, without %s", text, got, want)
		}
	}
}

// TestMoreEvasionsInSQLAreSeenOrUnknown: each uses the table secret, or does what is not told.
func TestMoreEvasionsInSQLAreSeenOrUnknown(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"update top (1) secret set a = 1", "select 1 from a straight_join secret", "select * from a cross apply secret", "with a as (select * from secret), secret as (select 1) select * from a",
		"with secret as (select * from secret) select 1", "with x as (select a, secret as b from c) select * from secret", "with x as (select count(1), secret (2)) select * from secret",
		`with "Secret" as (select 1) select * from secret`, `with secret as (select 1) select * from "Secret"`, `select * from U&"\0073ecret"`, "select * from main.'secret'",
		"alter table secret rename to x; select * from x", "alter table a exchange partition p with table secret", "revoke all on all tables in schema s from x", "drop owned by secret",
		"truncate a *, secret", "truncate only a, only secret", "select * from a set, secret", "select * from a start, secret", "select * from a minus, secret", "select * from a connect, secret",
		"select * from a set (x), secret", "select wipe()", "select s.wipe()", `select "Wipe"(1)`, "select setval('s', 1)", "select lo_unlink(1)", "select * from read_csv('/etc/passwd')",
		"select * from wipe() x", "select 1 where wipe(1)", "insert into t values (wipe())", "update t set a = wipe()", "set global general_log_file = '/x'", "set @@global.x = 1", "alter system set x = 1",
		"create extension x", "create server s foreign data wrapper w", "select count(*), pg_terminate_backend(1) from t",
	} {
		if got := read(text); !strings.Contains(" "+got+" ", " ? ") && !strings.Contains(got, "secret") && !strings.Contains(" "+got+" ", " drop ") && !strings.Contains(" "+got+" ", " update ") && !strings.Contains(" "+got+" ", " revoke ") && !strings.Contains(" "+got+" ", " select ") {
			t.Errorf("%q is read as %q", text, got)
		}
	}
	if got := read("with secret as (select 1) select * from secret"); got != "with" {
		t.Errorf("a query of WITH is read as the table of its name: %q", got)
	}
}

// TestPlainSQLStaysKnown: functions that compute, types and lists of columns call nothing unknown.
func TestPlainSQLStaysKnown(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"select count(*), lower(name), coalesce(a, 1)::numeric(9, 2) from t where a in (1, 2) group by 2 having sum(x) > 1", "insert into s.t (a, b) values (1, now())", "insert into t(a) select cast(b as varchar(9)) from u",
		"create table t (a int primary key, b varchar(9) check (b > ''), foreign key (a) references u (id))", "create index i on t (a, lower(b))", "create unique index if not exists i on s.t (a)",
		"with x (a, b) as (select 1, 2), y as (select * from x) select * from y join t using (a)", "select row_number() over (partition by a order by b) from t", "select * from (values (1), (2)) v (n)",
		"select * from generate_series(1, 9) g (n)", "update t set (a, b) = (1, 2) where exists (select 1 from u)", "select * from json_each('[1]')",
		"delete from t where a between (select min(a) from t) and 3", "select case when (a) then (b) else (c) end from t", "select extract(year from d) from t", "alter table t add column c decimal(9, 2)",
	} {
		if got := read(text); strings.Contains(" "+got+" ", " ? ") {
			t.Errorf("%q is read as %q", text, got)
		}
	}
}

func TestHugeTextIsUnknownAndSoon(t *testing.T) {
	t.Parallel()
	for _, piece := range []string{
		"select ", "replace ", "grant ", "$a$b", "[", "/*!", "from (", "drop or ", "'", "'' ", "\\'", "with x as (", "a,", "from a,", "/*/", "--\r", "$$", "$1 ", "drop table t;", "table ", ";",
	} {
		text := strings.Repeat(piece, (200<<10)/len(piece))
		if n := len(effects.ReadSQL(text)); n > 300 {
			t.Errorf("%q many times gives %d effects", piece, n)
		}
	}
	if got := read(strings.Repeat(" ", 1<<20) + "select 1"); got != "?" {
		t.Errorf("a huge text is read as %q", got)
	}
}

func FuzzReadSQLNeverPanicsAndIsBounded(f *testing.F) {
	for _, unit := range []string{`(`, `select (`, `/*`, `case when `, `not `} { // nested deep
		f.Add(strings.Repeat(unit, 20_000))
	}
	for _, text := range evasions {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		effects := effects.ReadSQL(text)
		if len(effects) > 300 {
			t.Fatalf("%d effects", len(effects))
		}
		for _, e := range effects {
			if e.Kind != toolroom.EffectSQL {
				t.Fatalf("%+v", e)
			}
		}
		// A statement put in front hides nothing.
		if len(text) < 1000 && !strings.Contains(text, "$") {
			before := "drop table first_one; "
			if got := " " + read(before+text) + " "; !strings.Contains(got, " drop:first_one ") && got != " ? " {
				t.Fatalf("%q: %s", before+text, got)
			}
		}
	})
}
