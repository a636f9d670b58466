package stakes

import (
	"slices"
	"strings"
	"unicode"

	"holdpoint/engine/canon"
)

// matchedTemplate is a template of this package that fits a call.
type matchedTemplate struct {
	text   string
	danger Danger
	notes  []string
}

// builtIn fills the template; not ok where it cannot be read.
func (w Writer) builtIn(f matchedTemplate, args canon.Value) (Sentence, bool) {
	t, err := parse(f.text)
	if err != nil {
		return Sentence{}, false
	}
	s := w.fill(t, args, BuiltIn)
	s.Danger = max(s.Danger, f.danger)
	for _, n := range f.notes {
		s.note("", " ", n)
	}
	return s.Sentence, true
}

// call is a call for which a built-in template is sought.
type call struct {
	tool  string
	words []string // of the tool's name, in lower case
	args  canon.Value
	// unclear says that an argument is there under several names, and not the same.
	unclear bool
}

// nameHas reports whether one of the words is in the tool's name.
func (c *call) nameHas(words string) bool {
	return slices.ContainsFunc(strings.Fields(words), func(w string) bool { return slices.Contains(c.words, w) })
}

// slot is the place of an argument that goes by one of the names; "" for none. One
// that is there under several names, with different values, makes the call unclear: which of
// them counts only the tool knows.
func (c *call) slot(names string) string {
	place, several := c.first(names)
	c.unclear = c.unclear || several
	return place
}

// firstOf is the first of several places, for arguments that say less of a call. The sentence
// tells that the others are left out.
func (c *call) firstOf(names string) string {
	place, _ := c.first(names)
	return place
}

// first is the first place that is there, and whether another one holds something else.
func (c *call) first(names string) (place string, several bool) {
	value := ""
	for _, name := range strings.Fields(names) {
		v, there := at(c.args, strings.Split(name, "."))
		if !there || v.IsNull() || v.Kind() == canon.ObjectKind {
			continue
		}
		switch text := string(v.Canonical()); {
		case place == "":
			place, value = name, text
		case text != value:
			several = true
		}
	}
	return place, several
}

// text is the text of an argument.
func (c *call) text(place string) string {
	v, _ := at(c.args, strings.Split(place, "."))
	return v.Str()
}

// with is the words before a field, and the field; "" without a place.
func with(before, place, format string) string {
	if place == "" {
		return ""
	}
	if format != "" {
		format = "|" + format
	}
	target, before := strings.HasSuffix(before, "*"), strings.TrimSuffix(before, "*")
	if target {
		place = "*" + place
	}
	return before + "{" + place + format + "}"
}

// builtIns are tried in this order: what is told by the shape of the arguments comes
// behind what is told by the tool's name.
var builtIns = []func(*call) (matchedTemplate, bool){ofCodingAgent, refund, payment, payee, access, mail, deployment, query, command, file, request, deletion}

// matchTemplate is the template that fits a call.
func matchTemplate(tool string, args canon.Value) (matchedTemplate, bool) {
	words := wordsOf(tool)
	for _, of := range builtIns {
		c := &call{tool: tool, words: words, args: args}
		if f, ok := of(c); ok {
			return f, !c.unclear
		}
	}
	return matchedTemplate{}, false
}

// wordsOf splits a tool's name at everything that is no letter and where upper case
// begins.
func wordsOf(tool string) []string {
	var b strings.Builder
	lower := false
	for _, r := range tool {
		switch {
		case !unicode.IsLetter(r):
			r = ' '
		case lower && unicode.IsUpper(r):
			b.WriteByte(' ')
		}
		lower = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(b.String())
}

// What only looks is none of the calls that the names below speak of.
const looks = "get list read search find fetch describe lookup show check preview count view status validate estimate simulate"

// amount is the field of an amount of money, "" without one.
func (c *call) amount() string {
	for _, m := range []struct{ names, currency, format string }{
		{"amount_minor amount_cents amount_in_cents", "currency currency_code", "minor"},
		{"amount total amount_total total_amount value sum", "currency currency_code", "money"},
		{"amount.value amount.amount total.value", "amount.currency amount.currency_code total.currency", "money"},
	} {
		place := c.slot(m.names)
		if v, _ := at(c.args, strings.Split(place, ".")); place == "" || v.Kind() != canon.NumberKind && v.Kind() != canon.StringKind {
			continue
		}
		format, currency := m.format, c.slot(m.currency)
		if currency != "" {
			format += ":" + currency
		} else {
			format += ":currency" // it is missing, and the sentence says so
		}
		return "{" + place + "|" + format + "}"
	}
	return ""
}

const payees = "payee.name payee recipient.name recipient beneficiary.name beneficiary creditor.name creditor vendor supplier to payee_id recipient_id vendor_id supplier_id"

const accounts = "iban account account_number to_account destination_account destination payee.iban recipient.iban beneficiary.iban creditor.iban payee.account recipient.account beneficiary.account"

func refund(c *call) (f matchedTemplate, ok bool) {
	amount := c.amount()
	if !c.nameHas("refund refunds reimburse reimbursement") || c.nameHas(looks) || amount == "" {
		return f, false
	}
	f.text = "Refund " + amount + with(" to *", c.slot("customer.name customer customer_id customer_email email user_id "+payees), "") +
		with(" for order ", c.firstOf("order order_id order_number"), "") + with(" of payment ", c.firstOf("payment payment_id payment_intent charge charge_id transaction_id"), "") +
		with(", to account *", c.slot(accounts), "account")
	return f, true
}

func payment(c *call) (f matchedTemplate, ok bool) {
	amount := c.amount()
	if !c.nameHas("pay payment payments payout payouts transfer transfers wire remit disburse charge") || c.nameHas(looks) || amount == "" {
		return f, false
	}
	f.text = "Pay " + amount
	if c.nameHas("charge") {
		f.text = "Charge " + amount
		f.text += with(" to *", c.slot("customer.name customer customer_id customer_email"), "")
	}
	f.text += with(" to *", c.slot(payees), "") + with(", account *", c.slot(accounts), "account") +
		with(", from account ", c.slot("from_account source_account from_iban from"), "account") + with(", reference ", c.firstOf("reference memo description invoice invoice_id"), "")
	return f, true
}

// payee is a change of whom later payments go to.
func payee(c *call) (f matchedTemplate, ok bool) {
	who, account := c.slot("payee_id name "+payees), c.slot(accounts+" new_iban")
	if !c.nameHas("payee beneficiary vendor supplier creditor") || c.nameHas(looks) || who == "" || account == "" {
		return f, false
	}
	f.text, f.danger = with("From now on, pay *", who, "")+with(" into account *", account, "account"), High
	return f, true
}

func mail(c *call) (f matchedTemplate, ok bool) {
	to := c.slot("to recipients recipient email channel channel_id phone phone_number")
	if !c.nameHas("mail email mails emails gmail smtp message messages sms slack teams notify chat") || c.nameHas(looks) || to == "" {
		return f, false
	}
	f.text = "Send"
	if subject := c.slot("subject title"); subject != "" {
		f.text += with(" ", subject, "")
	} else if body := c.firstOf("text body message content"); body != "" {
		f.text += with(" ", body, "line")
	}
	f.text += with(" to *", to, "list") + with(", copy to *", c.slot("cc"), "list") + with(", hidden copy to *", c.slot("bcc"), "list")
	if v, there := c.args.Get("attachments"); there && v.Kind() == canon.ArrayKind && v.Len() > 0 {
		f.text += ", attachments: {attachments|count}"
	}
	return f, true
}

func deployment(c *call) (f matchedTemplate, ok bool) {
	verb := ""
	for _, v := range []struct{ words, text string }{
		{"rollback", "Roll back"}, {"restart reboot", "Restart"}, {"scale", "Scale"}, {"deploy deployment release rollout promote", "Deploy"},
	} {
		if verb == "" && (c.nameHas(v.words) || v.text == "Roll back" && c.nameHas("roll") && c.nameHas("back")) {
			verb = v.text
		}
	}
	what := c.slot("service app application project deployment image workload name")
	if verb == "" || c.nameHas(looks) || what == "" {
		return f, false
	}
	f.text = verb + with(" *", what, "") + with(" ", c.firstOf("version tag ref commit revision to_version image_tag"), "") +
		with(" to ", c.slot("replicas instances count desired_count"), "") + with(" in *", c.slot("environment env stage cluster namespace target"), "")
	return f, true
}

// access gives or takes a role, a permission or a membership.
func access(c *call) (f matchedTemplate, ok bool) {
	who, group := c.slot("user user_id username email member member_id principal principal_id subject grantee account"), c.slot("group group_id")
	what := c.slot("role roles permission permissions policy policy_arn scope scopes access access_level level")
	on := with(" on *", c.slot("resource resource_id project repository repo file folder document bucket team org organization"), "")
	gives, takes := c.nameHas("grant assign add invite share attach allow"), c.nameHas("revoke remove unassign unshare detach deny")
	about := what != "" || c.nameHas("role roles permission permissions access member members iam acl")
	switch {
	case who == "":
		who = group
	case what == "":
		what, about = group, about || group != ""
	}
	if gives == takes || !about || who == "" {
		return f, false
	}
	thing := "access"
	if what != "" {
		thing = "{" + what + "|list}"
	}
	if takes {
		f.text = "Take " + thing + with(" from *", who, "list") + on
		return f, true
	}
	f.text = "Give " + thing + with(" to *", who, "list") + on
	if granted := strings.ToLower(c.text(what)); strings.Contains(granted, "admin") || strings.Contains(granted, "owner") || granted == "root" || strings.Contains(granted, "*") {
		f.danger = High
	}
	return f, true
}

func file(c *call) (f matchedTemplate, ok bool) {
	place := c.slot("path file_path absolute_path filepath filename file file_name")
	from, to := c.slot("source source_path from src old_path"), c.slot("destination destination_path dest dst new_path to target")
	if !c.nameHas("file files directory dir folder path fs write edit document") && place == "" {
		return f, false
	}
	switch {
	case c.nameHas("delete remove rm unlink purge wipe") && place != "":
		f.text, f.danger = with("Delete *", place, "path"), High
		if v, _ := c.args.Get("recursive"); v.Kind() == canon.BoolKind && v.Bool() {
			f.notes = append(f.notes, "recursive: with all that is in it")
		}
	case c.nameHas("move rename mv") && from != "" && to != "":
		f.text = with("Move *", from, "path") + with(" to *", to, "path")
		c.markActing(&f, to)
	case c.nameHas("copy cp") && from != "" && to != "":
		f.text = with("Copy *", from, "path") + with(" to *", to, "path")
		c.markActing(&f, to)
	case c.nameHas("write create save put append edit update patch replace upload") && place != "":
		f.text = with("Write *", place, "path") + with(": ", c.firstOf("content contents text data file_text new_string new_text"), "line")
		c.markActing(&f, place)
	case c.nameHas("read open cat view get download") && place != "":
		f.text, f.danger = with("Read *", place, "path"), Low
	default:
		return f, false
	}
	return f, true
}

func request(c *call) (f matchedTemplate, ok bool) {
	place, method := c.slot("url uri endpoint"), c.slot("method http_method verb")
	if place == "" || method == "" && !c.nameHas("http https request fetch curl webhook url api browse get post put delete web") {
		return f, false
	}
	f.text = "Send a request"
	verb := strings.ToUpper(c.text(method))
	if method != "" {
		f.text = with("Send a request ", method, "")
	}
	if verb == "DELETE" {
		f.danger = High
	}
	f.text += with(" to *", place, "host") + with(": ", place, "")
	return f, true
}

const deletes = "delete drop destroy purge wipe truncate terminate"

// deletion is a call that deletes one thing by its name or number.
func deletion(c *call) (f matchedTemplate, ok bool) {
	if !c.nameHas(deletes) {
		return f, false
	}
	kind := strings.Join(slices.DeleteFunc(slices.Clone(c.words), func(w string) bool { return slices.Contains(strings.Fields(deletes), w) }), " ")
	var what []string
	for _, m := range []struct{ label, names string }{
		{"database", "database db"},
		{"schema", "schema"},
		{"table", "table"},
		{"bucket", "bucket"},
		{"cluster", "cluster"},
		{short(kind, 40), "name id ids resource_id user_id key"},
	} {
		if place := c.slot(m.names); place != "" {
			what = append(what, m.label+with(" *", place, "list"))
		}
	}
	if len(what) == 0 {
		return f, false
	}
	f.text, f.danger = "Delete for good: "+strings.Join(what, ", "), High
	return f, true
}
