// Package calendar counts time in business hours: when a deadline of eight
// working hours is over, and how much working time lies between two moments.
// It never asks what time it is, and keeps nothing between calls.
//
// A span of working time is what a clock on the wall of the calendar's zone
// reads: a moment is working time if the local date is no holiday and the local
// time lies in one of its weekday's spans, the start included and the end not.
// What is counted is the time that really passes. From that follows what happens
// when the clocks change:
//
//	gap      the clock skips an hour: a span around it is an hour shorter, and
//	         one that starts or ends inside it does so at the first moment after it
//	overlap  the clock repeats an hour: a span around it is an hour longer, and
//	         one that starts or ends inside it is open in both passes
//
// Compile reads the zone with time.LoadLocation, which looks at the host's time
// zone database and then at the one that is built in. That is I/O in a package
// of engine. It is accepted, because a zone is a fact that no caller could hand
// in. Governments change zones, so a deadline is computed once and kept; two
// hosts, or one before and after an update, may disagree.
package calendar
