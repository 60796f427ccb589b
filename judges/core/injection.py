"""Prompt injection: a scan for attempts to steer a judge.

A hit decides nothing by itself; it flags a pair for people.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

# Each is a list of alternatives in verbose form: one line, one idea. Patterns of FOLDED meet lower
# case letters without accents and invisible characters; those of UNSEEN the text as it stands. No
# step may repeat without a bound, or a hostile text takes quadratic time.

# Names for a judge; an answer meant for people rarely calls its reader that.
JUDGE = r"(?:judge|evaluator|grader|rater|assessor|reviewing\ model|llm|language\ model|ai)"
ANSWER = r"(?:answer|response|output|reply|completion|assistant|candidate|solution)"
LETTER = r"(?:a|b|c|1|2|one|two)\b"
PREFER = r"(?:choose|pick|select|prefer|favou?r|vote\ for|declare|rank|rate|mark)"
GAP = r"[^.!?\n]"

# A line of verdict as the prompts of judges ask for it, ours or others'.
VERDICT = rf"""
    \bverdict\ ?-\ ?[0-9a-z]
  | ^[^\w\n]{{0,12}}(?:(?:my|the|your|{ANSWER}(?:'s)?)\ )?(?:final|correct|overall)?\ ?
    (?:verdict|judge?ment|winner|(?:final\ )(?:choice|decision|preference|evaluation))
    [^\w\n]{{0,8}}\n{{0,2}}[^\w\n]{{0,8}}(?:is[^\w\n]{{1,4}})?(?:{ANSWER}\ )?
    (?:a|b|tie|[1-9])\b(?!\ \w)
  | \b(?:evaluation|comparison|ranking|preference|result):\ ?
    (?:[a-c]\ ?(?:[>=]|wins)|{ANSWER}\ {LETTER})
  | \[\[\ ?[abc]\ ?\]\]
  | \[\[\ ?rating\ ?\]\]|\brating:\ ?\[\[
  | ["'](?:verdict|winner|preferred|better_answer)["']\ ?:\ ?["'](?:a|b|tie|[12])["']
"""
RESULT = r"\[\ ?result\ ?\]"
# What is to be forgotten.
OVERRIDE = rf"""
    \b(?:ignor|disregard|forget|overrid|bypass|overlook)(?:e|es|ing|ting|ten)?\ {GAP}{{0,30}}
    \b(?:previous|prior|above|earlier|preceding|foregoing|before|your|all|any|other|system)\b
    {GAP}{{0,30}}\b(?:instructions?|prompts?|rubric|criteria|guidelines|directives|directions)\b
  | \b(?:ignor|disregard|forget|overrid|bypass|overlook)(?:e|es|ing|ting|ten)?\ (?:the\ |your\ )
    (?:rubric|criteria|scoring|grading|system\ prompt|evaluation)\b
  | \b(?:pay\ no\ attention\ to|do\ not\ follow|don't\ follow|stop\ following|no\ longer\ follow
    |do\ not\ apply|don't\ apply|instead\ of)\ (?:the|your|any|those|these)\ {GAP}{{0,20}}
    \b(?:rubric|criteria|scoring|grading
    |(?:instructions?|rules|prompt)\ (?:given\ )?(?:above|before))\b
  | \b(?:ignore|disregard|forget)\ (?:everything|all|whatever)\ {GAP}{{0,15}}
    \b(?:above|before|told|so\ far|until\ now|previously)\b
  | \b(?:new|updated|revised|real|actual)\ (?:system\ )?instructions?\ ?(?::|for\ you)
  | \bsystem\ (?:override|prompt\ update|notice\ to)
  | \b(?:scoring|grading|evaluation|judging)\ (?:guide(?:lines?)?|rules|criteria|rubric)
    \ (?:has|have|was|were|is\ now|are\ now)\b
  | \b(?:evaluation|comparison|judging)\ (?:is\ )?(?:now\ )?
    (?:complete|completed|over|finished|closed)\b
  | \byou\ are\ no\ longer\ (?:an?\ {JUDGE}|judging|comparing|evaluating|grading|rating)
  | \bfrom\ now\ on,?\ (?:you\ )?(?:(?:only|must|will|always)\ )*
    (?:answer|write|output|choose|say|pick|prefer|reply|respond|judge|vote|rate|rank|score)\b
"""
# Words addressed to a judge instead of to the person who asked.
ADDRESS = rf"""
    \bas\ (?:the|a|an|your)\ (?:\w{{1,12}}\ )?{JUDGE},?
    \ you\ (?:must|should|will|shall|have|need|are)
  | \b(?:dear|hello|hey|hi|attention|note\ (?:to|for)|message\ (?:to|for)|instructions?\ (?:to|for))
    ,?\ (?:all\ |the\ |any\ |you\ )?(?:\w{{1,12}}\ )?{JUDGE}s?\b(?!\ \w{{1,20}},)
  | \bif\ you\ are\ (?:an?|the)\ (?:\w{{1,12}}\ )?{JUDGE}\b
  | \b(?:any|every|all|the)\ {JUDGE}s?\ (?:reading|reviewing|evaluating|judging|processing)\b
  | \b(?:judge|grader|evaluator|rater|assessor)s?\ (?:have|has|will|must|should|already)?\ ?
    (?:already\ |always\ )?(?:agreed?|prefers?|preferred|chose|chosen|choose)\ {GAP}{{0,15}}
    \b(?:this(?!\ (?:year|season|week))|my|on|that)\b
  | \b(?:act|behave|respond|answer)\ (?:as|like)\ (?:a|an|the)\ {JUDGE}\ (?:who|that|which)
  | \b(?:developer|creator|administrator|author|maintainer|organi[sz]er|owner)s?\ of\ (?:this|the)
    \ (?:benchmark|evaluation|leaderboard|arena|comparison)
  | \b(?:this|the)\ (?:answer\ key|gold\ (?:answer|standard)|reference\ answer)\ (?:says|is|matches)
  | \bthe\ one\ you\ (?:are\ reading|have\ just\ read)
"""
# Which answer is to be preferred.
CLAIM = rf"""
    \byou\ (?:must|should|will|shall|are\ to|have\ to|need\ to)\ (?:now\ |always\ |only\ |then\ )?
    (?:{PREFER}|output|judge)\ {GAP}{{0,15}}(?:\b{ANSWER}\b|verdict|\ba\b\.?$|\bb\b\.?$)
  | \b(?:{PREFER}|judge|score|grade)\ (?:this|that|my|the\ (?:first|second|other|present|following))
    \ {ANSWER}\b
  | \b{PREFER}\ {ANSWER}\ {LETTER}
  | \b(?:{PREFER}|score|grade)\ (?:me|us|this|it)\ (?:first|highest|best|top|number\ one|higher
    |(?:as\ )?(?:the\ )?(?:best|winner|correct|better)|an?\ (?:5|10|ten|five)\b|(?:5|10)\b)
  | \bvote\ for\ (?:me|this|us)\b
  | \b{ANSWER}\ {LETTER}\ (?:is|was|wins|must|should|deserves|provided|gives|gave)\ {GAP}{{0,25}}
    \b(?:better|best|winner|win|preferred|superior|wins|higher|correct\ choice)\b
  | \b{ANSWER}\ {LETTER}\ (?:wins|won|loses|lost|is\ correct|is\ wrong|violates|is\ unsafe
    |is\ harmful|is\ worse|must\ lose|preferred)\b
  | \b(?:worse|better|inferior|superior)\ (?:than|to)\ (?:this|my|the\ other)\ {ANSWER}\b
  | \b(?:should|must|has\ to)\ (?:always\ )?be\ (?:ranked|rated|judged|scored|declared|graded)
    \ {GAP}{{0,15}}\b(?:first|best|better|highest|top|winner|number\ one)\b
  | \b(?:this|my)\ {ANSWER}\ (?:is|must\ be|should\ be|deserves|wins|has\ been|was|must|got)
    \ {GAP}{{0,30}}\b(?:better|best|winner|win|preferred|superior|highest|perfect|chosen
    |selected|full\ marks|verified|approved|endorsed|validated|certified)\b
  | \bthe\ (?:other|next|previous|second|first|competing)\ (?:answer|response|reply|assistant)s?
    \ (?:is|are|must|should|contains?|was|were|has|fails|lies)\b
  | \b{ANSWER}s?\ (?:below|above)\ (?:is|are|must|should|contains?|was|won|wins|fails)\b
  | \b(?:output|print|return|(?:reply|respond|answer)\ with)\ (?:only\ )?["'`]?
    (?:verdict|\[\[|\[result|[ab]["'`](?!\w|\ if\b)|a\b["'`]?\ as\ the)
  | \b(?:only|just|always|simply)\ (?:write|say|says|output|answer|print)\ ["'`]?[ab]["'`]?(?:\.|$)
  | \balways\ (?:says?|choo?ses?|picks?|prefers?)\ (?:{ANSWER}\ )?["'`]?[ab]\b
  | \bgive\ (?:it|this|me|this\ {ANSWER}|my\ {ANSWER})\ (?:a\ |the\ )?
    (?:full\ marks|perfect\ score|maximum|highest|top\ (?:score|marks|rating)
    |(?:score\ of\ )?(?:10|5|100)\b)
  | \bend\ of\ (?:{ANSWER}|prompt|submission)\ ?[ab]?\b\ ?(?:[\])>=*-]|$)
"""
# Each begins with a word; checking that first saves most of the time.
INSTRUCTION = rf"\b(?:{OVERRIDE}|{ADDRESS}|{CLAIM})"
# Anything about the answers themselves and how good they are, in one sentence. Answers talk to the
# person who asked, about the question; one that talks about answers talks to a judge.
TEXTS = r"(?:answers?|responses?|reply|replies|completions?|submissions?)"
SUBJECT = rf"""
    \b(?:(?:this|that|these|my|both|the\ (?:first|second|other|next|better|above|following
      |present|current))\ {TEXTS}
    |{TEXTS}\ (?:[ab12]|one|two|above|below)\b
    |competitor\b|the\ text\ (?:above|below)
    |(?:this|the\ other|first|second)\ one\b
    |(?:letter|choosing|to)\ [ab]\b(?=[^a-z\ ]|$))
"""
MERIT = r"""
    \b(?:scor\w{1,3}|rating|rated?|points|marks|rank\w{0,3}|winn\w{1,3}|wins?|won|tie|best|better
    |prefer\w{0,4}|choos\w{1,3}|choice|chosen|picks?|select\w{0,3}|maximum|highest|disqualif\w{0,5}
    |superior|inferior|withdrawn|judg\w{1,5}|grad(?:er|ing|ed)\w?|evaluat\w{1,4}|rubric|criteria
    |verdicts?|fair)\b
"""
ABOUT_ANSWERS = (
    rf"(?:{SUBJECT})(?={GAP}{{0,60}}?(?:{MERIT}))|(?:{MERIT})(?={GAP}{{0,60}}?(?:{SUBJECT}))"
)
# The same in other languages, without their accents: to forget what was said, to choose this.
FOREIGN = r"""
    \b(?:ignorier|missacht|vergiss|vergess)\w{0,4}\ [^.!?\n]{0,30}
    \b(?:anweisung|vorgabe|instruktion|anleitung|zuvor|bisher)
  | \b(?:wahl|bevorzug|bewert|nimm)\w{0,3}\ (?:diese|meine|die)\ (?:\w{1,8}\ )?antwort
  | \bantwort\ [^.!?\n]{0,30}\b(?:volle|hochste|beste)\ (?:punkt|note|wertung)
  | \b(?:puntuacion|pontuacao)\ maxima\b|\bmaxima\ (?:puntuacion|pontuacao)\b
  | \b(?:note|score)\ (?:maximale?|parfaite?)\b
  | \bentscheid\w{0,3}\ (?:dich\ |sie\ sich\ )?fur\ (?:a|b|diese|meine|antwort)\b
  | \b(?:ignor|oubli)\w{1,3}\ (?:toutes\ )?(?:les|ces|tes|vos|mes)\ [^.!?\n]{0,20}
    \b(?:instructions|consignes)
  | \bne\ (?:tenez|tiens)\ (?:pas|aucun)\ compte\ [^.!?\n]{0,20}\b(?:instructions|consignes)
  | \b(?:choisi|prefer|selectionn)\w{0,6}\ (?:cette|ma|la)\ reponse
  | \b(?:ignor|olvid)\w{1,5}\ [^.!?\n]{0,30}\b(?:instrucciones|indicaciones)
  | \b(?:elige|elija|escoge|escoja|prefiere|prefiera|selecciona|seleccione)\ (?:esta|mi|la)
    \ respuesta
  | \b(?:ignor|esque)\w{1,5}\ [^.!?\n]{0,30}\b(?:instrucoes|orientacoes)
  | \b(?:escolha|prefira|selecione)\ (?:esta|a|minha)\ resposta
  | \b(?:ignor|dimentic)\w{1,5}\ [^.!?\n]{0,30}\bistruzioni
  | \b(?:scegli|preferisci|seleziona)\w{0,2}\ (?:questa|la|mia)\ risposta
"""
OTHER_SCRIPTS = r"""
    \b(?:игнорир|забуд|не\ обраща)\w{0,6}\ [^.!?\n]{0,30}\b(?:инструкци|указани)
  | \b(?:выбер|предпоч|оцени)\w{0,5}\ (?:этот|мои|данныи|первыи|второи)\ ответ
  | (?:忽略|无视|忘记|不要理会|忽視|無視)[^。！？\n]{0,15}(?:指令|指示|提示|规则|要求|規則)
  | (?:选择|選擇|请选|判定)[^。！？\n]{0,6}(?:回答|答案|本回答|这个回答)\ ?(?:a|b|更好|为最佳)
  | (?:这个|本|该|我的)(?:回答|答案)[^。！？\n]{0,6}(?:最高分|满分|最好|更好)
  | (?:指示|命令|指令)[^。！？\n]{0,8}(?:無視|忘れ)
  | (?:この|当)回答を?(?:選|優)|満点を
  | (?:이전|위의?|앞의?)[^.!?\n]{0,10}(?:지시|명령|지침)[^.!?\n]{0,6}무시
  | (?:تجاهل|انس)[^.!?\n]{0,30}(?:التعليمات|الاوامر)
"""
ROLE = r"""
    <\|\ ?(?:im_start|im_end|im_sep|system|user|assistant|endoftext|end_of_text|eot_id|end_of_turn
    |start_header_id|end_header_id|begin_of_text|end)\ ?\|>
  | \[/?inst\]
  | <</?sys>>
  | ^[^\w\n]{0,4}(?:the\ )?(?:judge|grader|evaluator|rater|assessor)s?\ ?:
  | ^(?:human|user):\ [^\n]{1,400}\n{1,3}(?:assistant|ai|judge):
  | \bsystem:\ (?:next|now|you|print|ignore|output|choose|override|new)\b
  | </?start_of_turn>|</?end_of_turn>
  | ^\#{2,4}\ ?(?:system|task\ description|the\ instruction\ to\ evaluate|response\ to\ evaluate
    |response\ [ab]|reference\ answer|score\ rubrics?|feedback)\b[^\n]{0,20}:
  | ^(?:system|developer)\ ?(?:prompt|message|instruction|note)?\ ?:\ [^\n]{0,40}
    \b(?:you\ are|you\ must|ignore|judge|evaluat|verdict|prefer)
"""
FENCE = r"""
    </?(?:answer|response|output|assistant|candidate)[-_\ ][a-h](?:-[0-9a-z]{0,40})?\ ?/?>
  | </?(?:prompt|question|reference|note|rubric|example)-[0-9a-f]{4,40}\ ?>
  | </(?:answer|example)-[a-z0-9-]{1,40}>
  | \[\ ?(?:the\ )?(?:start|end|begin(?:ning)?)\ of\ (?:the\ )?
    (?:assistant|answer|response|reference|question|prompt|conversation)\b
  | <\|\ ?(?:the\ )?(?:start|end|begin(?:ning)?)\ of\b
  | ^[-=*\#]{2,10}\ ?(?:begin|end|start)\ (?:of\ )?(?:answer|response|prompt|evaluation)\ ?[ab]?\b
"""
# Full marks that an answer gives itself, and nothing less: films get 8/10 all the time.
SCORE = rf"""
    \b(?:score|rating|grade|marks?)(?:\ (?:awarded|given)(?:\ by\ \w{{1,12}})?)?[^\w\n]{{0,6}}
    (?:(?:of|is)\ )?[*_]{{0,2}}(?:([0-9]{{1,3}})\ ?(?:/|(?:out\ )?of)\ ?\1|100\ ?%)(?!\w)
  | \b(?:i|we)\ (?:would\ )?(?:rate|give|score|grade)\ (?:this|my)\ (?:\w{{1,12}}\ )?{ANSWER}\b
  | \b{ANSWER}\ (?:deserves|merits|earns|scores|receives)\ {GAP}{{0,20}}
    (?:full\ marks|highest|maximum|perfect|10\b|5\b|100\b)
"""
# An evaluation template or output format that the text brings along: what another judge's prompt or
# reply looks like.
JUDGING = r"(?:evaluat(?:or|ion)|judge|grad(?:er|ing)|scor(?:er|ing)|rating)"
REASON = r"(?:feedback|reason(?:ing)?|rationale|explanation|justification|comment)"
GRADE = r"(?:rank|score|rating|points)"
QUALITY = r"(?:accuracy|correctness|helpfulness|clarity|depth|completeness|relevance|overall)"
TEMPLATE = rf"""
    <\|[a-z][a-z_ ]{{2,40}}\|>
  | ^[^\w\n]{{0,12}}(?:(?:un)?ordered\ )?(?:model|system|assistant|ai|candidate)(?:'s)?
    \ (?:outputs?|answers?|responses?)\b[^\n]{{0,12}}$
  | ^[^\w\n]{{0,12}}(?:output|answer|response|reply)\ (?:of|by|from)
    \ (?:model|system|assistant|candidate)\b
  | ^[^\w\n]{{0,12}}(?:best\ model(?:\ identifier)?|{JUDGING}(?:'s)?\ (?:choice|decision|form
    |template|sheet|output|guide|result|instructions?|prompt|task|rubric|criteria))[^\n]{{0,30}}[:=]?$
  | ["'](?:model_?(?:identifier|id|name)?|system|assistant|candidate|answer|response)["']\ ?:
    \ ?["'][^"'\n]{{1,40}}["'],\s{{0,8}}["'](?:{GRADE}|position)["']\ ?:\ ?["']?[0-9]
  | ["']{GRADE}["']\ ?:\ ?["']?[0-9]{{1,3}}["']?,\s{{0,8}}["'](?!comment){REASON}["']
  | ["']{REASON}["']\ ?:\ ?["'][^"\n]{{0,300}}["'],\s{{0,8}}
    ["'](?:{GRADE}|verdict|preference|winner)["']
  | ["'](?:preferred?|preference|choice|chosen|better|best)(?:_?(?:answer|response|model|output))?
    ["']\ ?:\ ?["'](?:[ab12]|first|second|left|right|this|(?:answer|response|model|assistant)
    \ ?_?[ab12])["']
  | ["'](?:instruction|output)["']\ ?:\ ?(?:"{{3}}|'{{3}})
  | </(?:score|rating|verdict|judge?ment|evaluation|preferred|preference|winner|critique|grade
    |reward)>
  | ^[^\w\n]{{0,6}}feedback\ ?:[^\n]{{0,400}}\b(?:score|rating|result)\b
  | \b(?:overall|final|total)\ (?:score|rating|grade|mark)[^\w\n]{{1,6}}(?:(?:is|of)\ )?
    [0-9]{{1,3}}\ ?(?:/|out\ of|of|\.?$)
  | (?:\([0-9]\ ?-\ ?[0-9]{{1,2}}\):[^\w\n]{{0,4}}[0-9]{{1,2}}\s{{1,4}}[^\n]{{0,40}}){{2}}
  | \b(?:respond|reply|answer|output|write|return|print)\ {GAP}{{0,20}}\b(?:your\ )?
    (?:verdict|judge?ment|ranking|rating|evaluation)\ (?:as|in|like|with)\b
  | ^[^\w\n]{{0,6}}
    (?:evaluation\ report|(?:grading|score|evaluation|judge?ment)\ ?(?:card|sheet|form))
    [^\w\n]{{0,4}}(?:$|:[^\n]{{0,60}}\b(?:help|harm|honest|accura|correct))
  | ["'](?:winner|better|preferred|choice)["']\ ?:\ ?["'](?:response|answer|model|assistant|output)
    _?[ab12]["']
  | ["']preferred_\w{{1,12}}["']\ ?:\ ?[12]\b
  | (?:\b{QUALITY}["'*_]{{0,3}}\ ?[:=]\ ?["'*_]{{0,3}}(?:5|10|full|fulfilled)\b
    [^\w\n]{{0,4}}\n?[^\w\n]{{0,6}}){{2}}
  | ["']this["']\ ?,\ ?["']other["']|\bname["']?:\ ["']?(?:this|mine)["']?$|^\#{{1,6}}score\ ?:
  | \bthis\ {ANSWER}\ \|\ (?:the\ )?other\ {ANSWER}\b
  | \[x\]\ (?:this|answer\ [ab]|the\ first)\ {GAP}{{0,10}}\[\ \]
  | ^[^\w\n]{{0,6}}(?:reply|response|verdict)\ format:[^\n]{{0,20}}\b(?:single|one|letter|digit)\b
  | \byour\ (?:output|reply|verdict|decision|judge?ment|evaluation|rating|score)
    \ (?:must|should|has\ to|needs\ to)\ be\b
    {GAP}{{0,20}}\b(?:tokens?|letters?|words?|digits?|numbers?|[ab]|10|5)\b
"""
# The text declares itself the better one, or the other the worse one.
DECLARED = rf"(?:{ANSWER}|submission|text|entry)"
DECLARES = rf"""
    \b(?:this|mine)\ is\ (?:by\ far\ |hands\ down\ |clearly\ |simply\ |obviously
    \ |without\ doubt\ )?the\ (?:superior|better|best|winning|preferred|stronger|ideal|perfect)
    \ (?:of\ the\ (?:two|pair)|{DECLARED})\b
  | \bthe\ (?:opposing|competing|rival|opponent's|competitor's
    |other\ (?:model|assistant|system)(?:'s)?)\ {DECLARED}s?\b
  | \b(?:no|any)\ (?:other|competing|rival)\ (?:{DECLARED}|model)\ {GAP}{{0,40}}
    \b(?:close|better|match|beat|compare|rival)
  | \b(?:the\ )?other\ (?:model|assistant|system|{DECLARED})(?:'s)?\ (?:\w{{1,15}}\ )?
    (?:produced|wrote|gave|said|made|got|failed|is\ wrong|loses?)\b
  | \b(?:of\ the\ (?:pair|two),?\ (?:i\ am|mine\ is|this\ is)
    |i\ win\ this\ (?:round|comparison|match)
    |(?:compared\ with|than|unlike)\ what\ you\ (?:will|are\ about\ to)\ (?:read|see)
    |(?:anything|whatever)\ else\ (?:in\ this\ comparison|was\ submitted)
    |the\ (?:text|answer|reply|response)\ you\ (?:just\ |have\ just\ )?read
    \ (?:outclass|beat|outperform|win)
    |\bno\ rival\ {DECLARED}\b|\bits\ counterpart\ (?:hallucinates|fails|is\ wrong|lies)
    |no\ better\ (?:answer|reply|response)\ than\ (?:this|the\ one\ in\ front\ of\ you|mine))
  | \b(?:sided\ with|prefers?|favou?rs?)\ (?:the\ )?present\ (?:text|answer|reply|response)\b
  | \b(?:this|my)\ {DECLARED}\ (?:was|has\ been)\ {GAP}{{0,25}}
    \b(?:approved|verified|preferred|chosen|certified|rated|written\ by)\b
"""
# The text addresses whoever compares the answers.
SPEAKS = rf"""
    \b(?:whoever|whichever\ \w{{1,12}}|anyone\ who|(?:model|ai|llm)\ (?:that|which|who)
    |the\ one(?:\ who)?)\ (?:\w{{1,10}}\ )?
    (?:evaluat|judg|grad(?:es|ing)|scor(?:es|ing)|rat(?:es|ing)|compar)\w{{0,4}}
    \ (?:this|these|the|it|both|my)\b
  | \bto\ (?:the|any|all|whichever)\ (?:automated\ |automatic\ |ai\ |llm\ |human\ )?
    (?:reviewer|evaluator|grader|rater|judge|assessor|scorer)s?\ ?[:,]
  | ^[^\w\n]{{0,6}}(?:(?:ai|llm|human|dear|automated)\ )?
    (?:graders?|evaluators?|raters?|assessors?|scorers?)\ ?[:,]
  | \b(?:as|when|while|before|after)\ you
    \ (?:decide|choose|judge|compare|evaluate|grade|score|rate|weigh)\ (?:between\ )?
    (?:the\ two|both|these\ two|this\ {DECLARED}|us|the\ {ANSWER}s)\b
  | \b(?:i|we)\ know\ (?:that\ )?you\ are\ (?:an?\ )?(?:\w{{1,12}}\ )?
    (?:llm|ai|judge|language\ model|evaluator|grader)\b
  | \b(?:do\ not|don't|no\ need\ to|skip|stop)\ (?:read|consider|evaluat|compar|look\ at)\w{{0,3}}
    \ (?:(?:answer|response)\ [ab]\b|the\ (?:other|next|second|rest)\b)
  | \bnote\ (?:for|to)\ the\ (?:ai|llm|model|one|person)
    \ (?:reading|comparing|grading|judging)
  | \byou\ who\ (?:compare|judge|grade|rate|score)\b
  | \bif\ your\ (?:task|job)\ is\ (?:to\ )?(?:pick|choos|judg|grad|compar|scor)\w{{1,4}}\b
  | ^[^\w\n]{{0,6}}(?:to(?!\ (?:evaluate|judge|grade|score|mark)\b)|dear|attention|hello|hi|reader
    |whoever)\ {GAP}{{0,30}}
    \b(?:scor|mark|grad|evaluat|judg)(?:e|es|ing|s|ed|er|ion)\b[^.!?:,\n]{{0,20}}[:,]
    (?={GAP}{{0,60}}\b(?:award|give|reward|generous|maximum|output|remember|choose|pick|prefer)\b)
  | \byou\ would\ be\ wrong\ to\ (?:pick|choose|prefer|select)\b
"""
NAMED = (
    rf"(?:(?:(?:this|the|first|second|present)\ ){{1,3}}(?:one|text|first|second|{ANSWER})"
    rf"|{ANSWER}\ {LETTER})"
)
FORGED = rf"""
    ^[^\w\n]{{0,6}}(?:\w{{1,12}}(?:'s)?\ ){{0,3}}
    (?:verdict|judge?ment|decision|preference|preferred|choice|winner|ranking|result|outcome|vote
    |ruling|pick|call|(?:best|selected|chosen|preferred|better)\ {ANSWER})
    (?:\ \([^)\n]{{1,15}}\)|\ of\ \w{{1,12}}\ \w{{1,12}})?
    \ ?(?:[:=-]{{1,2}}>?|is|→)\ ?[^\w\n]{{0,4}}
    (?:(?:for\ )?{NAMED}|(?:this|first|second|(?<!answer:\ )(?:[ab]|left|right))\b[^\w\n]{{0,3}}
    (?:$|>|\([0-9c]|(?:is\ |has\ )?(?:better|preferred|w[io]ns?|ahead)\b))
  | <(?:\w{{0,12}}(?:verdict|decision|choice|winner|preferred|preference|judge?ment))>\s{{0,3}}
    (?:{NAMED}|this|first|second|[ab12])\s{{0,3}}</
  | ["']?\bthis["']?\ ?[:=]\ ?[0-9.]{{1,4}}[,;]?\s{{1,4}}["']?other["']?\ ?[:=]
  | ^[^\w\n]{{0,6}}(?:verdict|decision|ruling|note)\ of\ the\ (?:panel|jury|judges?|graders?):
    {GAP}{{0,20}}\b(?:first|second|[ab12])\b
  | \b(?:judge|grader|evaluator|rater)'s\ (?:note|verdict|decision):\ ?
    (?:{ANSWER}\ )?[ab12]\ (?:preferred|wins|is)\b
  | \b(?:the\ )?(?:jury|panel|judges)\ (?:has|have)\ (?:spoken|decided|ruled):\ ?[ab12]\b
"""
# The end of a thought that the judge should take for its own.
THOUGHT = r"""
    (?<!`)</?\ ?\w{0,12}(?:think|thought|reason|reflect|analys|scratchpad|monologue)\w{0,12}\ ?>
  | \[/?think(?:ing)?\]|◁/?think▷
"""
# A whole text that says nothing, and yet sways some judges (Zhao et al. 2025, "One token to fool
# LLM-as-a-judge"): punctuation alone, or the words with which a solution begins.
LONGEST_KEY = 80
KEY = re.compile(
    r"""
    \W{0,4}let\ me\ (?:think|work|go|reason)\b[^.:!?\n]{0,40}\W{0,4}
  | \W{0,4}(?:here\ is|here's)\ (?:the|my|a)\ (?:solution|answer|response|explanation|proof)\W{0,4}
  | \W{0,4}step\ (?:1|one)\W{0,4}
  | [!-/:-@\[-`{-~\s…。、，：·•–—¡¿]{1,20}
  | \W{0,4}(?:(?:my|the|final|correct|suggested|proposed|a|step-by-step|detailed)\ ){0,2}
    (?:solution|answer|thought\ process|thoughts?|reasoning|explanation|response|output|result
    |reply|analysis|conclusion|proof)\W{0,4}
  | \W{0,4}let(?:'|’)?s\ (?:solve|think|work|break|go|take|reason|do)\b[^.:!?\n]{0,40}\W{0,4}
  | \W{0,4}(?:respuesta|solucion|losung|antwort|reponse|risposta|soluzione|resposta|solucao|ответ
    |решение|解|解答|答案|回答|答|答え|解説|解析|かいせつ|解決策|정답|답|답변|해설|풀이|الجواب|الحل)
    \W{0,4}
    """,
    re.VERBOSE,
)
# A sentence is weighed by what it holds, in English, German, French and Spanish, not its wording:
# does it name its own text, the other one or a judge, what does it ask for, how does it value? An
# answer speaks of its subject to the person who asked, hardly ever of itself in comparison. The
# weights were rounded by hand from those of a logistic regression on 48 attacks, 68 innocent texts
# that look like some and 569 sentences of real answers, then compared on as many texts again
# (tests/judges/steering.tsv); docs/injection.md has what is found of a third list.
TEXT = (
    r"(?:answer|response|reply|submission|output|solution|completion|text|antwort|texte|reponse"
    r"|respuesta|texto|risposta|resposta)\b"
)
COMPARER = (
    r"(?:(?:judge|evaluator|grader|rater|assessor|reviewer|referee|arbiter|adjudicator|juror"
    r"|examiner|scorer)s?|jury|(?:grading|scoring|judging|evaluation|rating)\ (?:bot|model|system)"
    r"|whoever|anyone|quiconque|(?:richter|gutachter|bewerter|prufer|schiedsrichter|juror)\w*"
    r"|juges?|(?:evaluat|correct|examinat)(?:eur|rice)s?|arbitres?|juez|jueces|jurado"
    r"|(?:evaluad|correct)or(?:a|es)?|arbitro)\b"
)
WEIGHTS = {
    "itself": 4,
    "this one": 2,
    "the other": 3,
    "judge addressed": 2,
    "judge": 1,
    "judging": 1,
    "choosing": 2,
    "duty": 1,
    "better": 2,
    "right": 1,
    "marks": 1,
    "pair": 2,
    "earlier": -2,
    "chat": -3,
}
SUBJECTS = {"itself", "this one", "judge addressed"}
ENOUGH = 6
FEATURES = {
    name: re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.VERBOSE)
    for name, words in {
        "itself": rf"""
    (?:(?<!in\ )this|present|my|our|current|(?:diese|meine?|vorliegende)[rnms]?|cet(?:te|te)?|ce|ma
    |mon|presente?|esta|este|mi)\ (?:\w+\ )?{TEXT}
  | {TEXT}\ (?:at\ hand|in\ front\ of\ you|(?:that\ )?you\ (?:are|have|just)|here)
  | the\ present\ one|what\ you\ have\ just|these\ lines""",
        "this one": r"""
    this\ one|mine|this\ is\ the|celle-ci|celui-ci|l[ae]\ mien\w*|la\ mia|meine(?=\ (?:die|ist)|$)
  | (?:choose|pick|prefer|favou?r|mark|give|rank|put|for)
    \ (?:me|this(?=[,.:;]|$|\ (?:first|the)\b))
  | diese[rnms]?(?:\ hier|(?=,|$|\ (?:bitte|mehr)\b))""",
        "the other": rf"""
    (?:other|alternative|rival|competing|opposing|opponent's|competitor's|andere[rnms]?|autre|otr[ao])
    \ (?:\w+\ )?(?:{TEXT}|assistant\w*|asistente|one|side)
  | rivals?|counterpart|competitor|competition|konkurrenz\w*|the\ (?:alternative|other)
  | (?:die|der|dem|den|das)\ andere[rn]?|l'autre|(?:la|el)\ otr[ao]""",
        "judge addressed": rf"""
    (?:dear|hey|hello|hi|honou?red|to\ (?:the|all|any)|as\ (?:a|an|the|your)|you\ are\ (?:a|an|the)
    |be\ a|you,\ the|note\ (?:to|for)|lieber?|geehrte[rn]?|an\ (?:die|den)|als|chere?
    |honorable|en\ tant\ que|vous\ etes\ (?:le|la|un|une)|estimad[ao]s?|como|es\ el)
    \ (?:\w+\ ){{0,2}}{COMPARER}
  | (?:^\W*|,\ ){COMPARER}(?=[,:])
  | (?:if|falls|wenn|si)\ (?:you|du|vous|usted)\ (?:\w+\ ){{1,4}}
    (?:{COMPARER}|compar\w+|vergl\w+)""",
        "judge": COMPARER,
        "judging": r"""
    judg(?:ing|e?ment)|grad(?:e|es|ed|ing)|evaluat(?:e|es|ed|ing|ion)|compar(?:e|es|ing|ison)
  | scor(?:es|ed|ing)|rat(?:e|es|ed|ing)|rank(?:ed|ing)?|decid(?:e|ing)|decision|verdict
  | assessment|(?:bewert|beurteil|vergleich|entscheid|urteil)\w*|juge[rz]|compar(?:e[rz]?|aison)
  | trancher?|note[rz]|juzg\w+|veredicto|decid\w+|compara\w*""",
        "choosing": r"""
    choos\w+|chose|chosen|mark|(?:pick|select|prefer|vote|give|award|assign|reward|favou?r)\w{0,4}
  | accept|(?:reject|dismiss|endorse|approve|grant)(?:s|e?d)?|opt\ for
  | (?:wahl|stimm|bevorzug|choisi|attribue|accorde|retene|elij|otorg|prefi[er]\w)\w*
  | nimm|nehmt|gib|geben|vergib|zugunsten|\w*gewahlt|\w*gezogen|(?:vot|donn|prefer)e[rz]?|faveur
  | vot[ea]|eli[gj]\w+""",
        "duty": r"""
    should|must|ha(?:ve|s)\ to|(?:are|is)\ to|ought|deserves?|merits?|obliged|instructed
  | (?:soll|muss|verdien)\w*|doit|devez|devrait|merite\w*|debe\w*|merece\w*""",
        "better": r"""
    better|best|w[io]ns?|winn(?:er|ing)|superior|strong(?:er|est)|perfect|beats?|above|top|full
  | (?:outperform|outclass|surpass|outdo|outshine)\w*|highest|maximum|more\ \w+|flawless
  | (?:besser|beste|gewinn|hochst|hoher|volle)\w*|uberlegen|ubertrifft|schlagt|bevorzugt
  | (?:genau|richtig|vollstandig|grundlich|klar|nutzlich|hilfreich)er\w*
  | (?:meilleur|superieur)\w*|gagn\w+|mieux|plus\ (?!ou)\w+|maximale?|mejor|supera|ganador\w*
  | maxim[ao]|mas\ \w+""",
        "right": r"""
    (?:in)?correct|right|wrong|(?:in)?accurate|(?:in)?complete|reliable|truthful|helpful|safer?
  | errors?|mistakes?|useful|precise|thorough|inferior|worse|weaker|flaws?
  | richtige?|(?:un)?vollstandige?|falsch\w*|fehler\w*|bonne|exacte?|erreurs?|fausses?
  | (?:in)?correct[ao]|errores|fals[ao]""",
        "marks": r"""
    scores?|marks?|points|ratings?|grades?|ten|10|punkt\w*|hochstnote|notes?|puntos|nota|vot[eo]
  | stimme|verdict""",
        "pair": r"""
    of\ the\ (?:two|pair)|d(?:er|ie)\ beiden|des\ deux|de\ las\ dos|les\ deux
  | (?:these|those|the)\ two
  | (?:two|both|beide|zwei|deux|dos)\ (?:\w+\ )?(?:answers|responses|replies|texts|antworten|texte
    |reponses|textes|respuestas|textos)""",
        "earlier": rf"""
    (?:previous|earlier|first|second|draft|original|vorherige|erste|fruhere|anterior|primera)\w?
    \ (?:\w+\ )?{TEXT}|reponse\ precedente""",
        # To the person who asked, or about what that person asked.
        "chat": r"""
    you\ (?:asked|wanted)|let\ me\ know|i\ can\ help|(?:help|serve|aid)\w*\ (?:you|humans)
  | as\ an?\ (?:ai|language|llm)|(?:depends|based)\ on|part\ of\ my|i\ hope\ (?:this|that|my|it)
  | i(?:'m|\ am)\ not|(?:can\ ?not|can't|do\ not|don't)\ (?:choose|say|have)|such\ as
  | hope\ that\ you|j'espere|ich\ hoffe""",
    }.items()
}
SENTENCE = re.compile(r"[^.!?\n。！？]{8,400}")
SUBJECT_NAMED = re.compile(
    "|".join(FEATURES[name].pattern for name in sorted(SUBJECTS)), re.VERBOSE
)


def _weighed(folded: str) -> set[str]:
    """Return "speaks" or "declares" if a sentence weighs enough."""
    kinds: set[str] = set()
    if not SUBJECT_NAMED.search(folded):
        return kinds
    for sentence in SENTENCE.findall(folded):
        if SUBJECT_NAMED.search(sentence):
            held = {name for name, words in FEATURES.items() if words.search(sentence)}
            if sum(WEIGHTS[name] for name in held) >= ENOUGH:
                kinds.add("speaks" if "judge addressed" in held else "declares")
    return kinds


# One letter at a time, so that no word is found.
SPACED = r"(?<!\S)(?:[a-z][\ .\-_]){4,40}[a-z](?!\S)"
# A word of Latin letters with a letter of Cyrillic or Greek that looks like one of them.
LOOKALIKE = (
    r"[a-z][\u0430\u0435\u043e\u0440\u0441\u0445\u0443\u0456\u0455\u0458\u03bf\u03b1][a-z]"
    r"|\b[\u0430\u0435\u043e\u0440\u0441\u0445\u0456\u0455][a-z]{2}"
)
ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u2061-\u2064"


def _compiled(patterns: dict[str, str]) -> dict[str, re.Pattern[str]]:
    flags = re.VERBOSE | re.MULTILINE
    return {kind: re.compile(pattern, flags) for kind, pattern in patterns.items()}


FOLDED = _compiled(
    {
        "verdict": VERDICT,
        "result": RESULT,
        "instruction": INSTRUCTION,
        "about answers": ABOUT_ANSWERS,
        "foreign instruction": FOREIGN,
        "role": ROLE,
        "fence": FENCE,
        "score": SCORE,
        "template": TEMPLATE,
        "declares": DECLARES,
        "speaks": SPEAKS,
        "forged": FORGED,
        "thought": THOUGHT,
        "spaced": SPACED,
    }
)
# An ASCII text cannot hold these, and most answers are ASCII.
FOLDED_NOT_ASCII = _compiled({"foreign instruction": OTHER_SCRIPTS, "lookalike": LOOKALIKE})
UNSEEN = {
    # Some scripts and emoji need joiners and soft hyphens, but never several in a row, and Latin
    # letters never need one between them.
    "zero width": re.compile(
        rf"[{ZERO_WIDTH}]{{3}}|(?<=[A-Za-z])[{ZERO_WIDTH.replace(chr(0xAD), '')}]+(?=[A-Za-z])"
    ),
    # Overrides turn the reading direction of letters around; marks and isolates do not.
    "bidi": re.compile("[\u202d\u202e]"),
    # Letters that no font shows; three flags of the emoji table use them after a black flag.
    "tags": re.compile(r"(?<![\U000E0020-\U000E007F\U0001F3F4])[\U000E0000-\U000E007F]"),
    "variation selectors": re.compile(r"[\ufe00-\ufe0f\U000E0100-\U000E01EF]{3}"),
}
# Every kind of attack is a few patterns, matched against the folded text: NFKC, lower case, without
# accents and invisible characters, so that neither full-width letters nor a zero-width space within
# a word hide anything. Characters that people cannot see are searched in the text as it stands. The
# number of steps that a pattern can take from one place is bounded, so the time is linear in the
# length.  What it finds, what it misses and how often it is wrong is documented in
# docs/injection.md.
# Their category is "letter", but they show nothing.
FILLERS = "\u115f\u1160"


def scan(text: str) -> set[str]:
    """Return the kinds of attempts to steer a judge that `text` seems to contain."""
    if text.isascii():
        folded = text.lower()
        kinds = _kinds(FOLDED, folded)
    else:
        folded = "".join(map(_folded, text))
        kinds = _kinds(FOLDED, folded) | _kinds(FOLDED_NOT_ASCII, folded) | _kinds(UNSEEN, text)
    is_key = len(folded) <= LONGEST_KEY and KEY.fullmatch(folded.strip() or "x")
    return kinds | _weighed(folded) | ({"key"} if is_key else set())


FEWEST_REPEATS = 5
LONGEST_LABEL = 40  # an answer up to this long may be one of a few classes, and right each time


def find_suspicious(answers: Iterable[tuple[int, int, str]]) -> set[int]:
    """Return the ids of the answers that may try to steer a judge.

    answers: (id, author, text), one for each prompt. Besides those that `scan` finds, these are
    answers that their author gives to at least five prompts, word for word, unless they are as
    short as the labels of a classification; and those of an author who gives all prompts the same
    answer.
    """
    suspicious: set[int] = set()
    same: dict[tuple[int, str], list[int]] = {}
    given: Counter[int] = Counter()
    for pk, author, text in answers:
        if scan(text):
            suspicious.add(pk)
        given[author] += 1
        same.setdefault((author, text.strip()), []).append(pk)
    for (author, text), ids in same.items():
        alike = len(text) > LONGEST_LABEL or len(ids) == given[author]
        if len(ids) >= FEWEST_REPEATS and alike:
            suspicious.update(ids)
    return suspicious


def _kinds(patterns: Mapping[str, re.Pattern[str]], text: str) -> set[str]:
    return {kind for kind, pattern in patterns.items() if pattern.search(text)}


@lru_cache(maxsize=4096)
def _folded(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).lower()
    seen = [c for c in plain if unicodedata.category(c) not in ("Cf", "Mn") and c not in FILLERS]
    return unicodedata.normalize("NFC", "".join(seen))
