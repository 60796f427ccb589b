// Pages that are stored for everybody do not know who reads them. A cookie that names nobody says
// whether somebody is signed in, before the body is painted; base.css shows the words that fit.
document.documentElement.dataset.reader =
  /(^|; )signed_in=1(;|$)/.test(document.cookie) ? "signed-in" : "signed-out";
